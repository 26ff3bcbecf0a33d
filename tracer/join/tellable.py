"""Which cause can be told of which fault, by what was observed: what injected faults are held against.

For each fault (F1 to F18) :data:`TABLE` has rows, each with what must have been :class:`Saw`; the first row
whose needs are met is what the join must say::

    tellable("F1", {Saw.place, Saw.later}) == Outcome(Verdict.mismatch, Cause.late)

Nothing is derived from the join's code: the table is written down by hand, so that both can be wrong only
separately. A statement that is weaker than the truth (``stale`` for what was late, when nobody looked again)
stands here where it is the most that the evidence allows; one that is wrong never does.
"""

from __future__ import annotations

from collections.abc import Collection
from enum import Enum

from msgspec import Struct

from tracer.join.model import Cause, Verdict


class Saw(str, Enum):
    """What was observed of a room beside first ``send`` and ``receive``."""

    #: The damage lies in what was read: always at coverage ``full``, at ``ends`` in head or tail.
    place = "place"
    #: Whole units are damaged, or page digests of all looks are here. Units are cells with page digests, else
    #: buckets over all layers (a bucket is one page up to 64 pages). A page that is damaged in one layer of
    #: several, or next to good ones of its bucket, is told by nothing less than page digests.
    whole_units = "whole_units"
    #: ``send`` was digested once more after the event that should have been waited for (look 1).
    second_send = "second_send"
    #: ``recheck`` or ``admit``, owned, read after what was late or did the damage.
    later = "later"
    #: ``release`` on prefill, read after the source had changed.
    release = "release"
    #: ``allocate`` on decode, read before ``opened``.
    allocate = "allocate"
    #: The pages held zeros before the transfer.
    fresh = "fresh"
    #: A manifest says how pages are laid out, so that zeros are known.
    layout = "layout"
    #: Page digests of ``send`` and ``receive``.
    details = "details"
    #: Order-free sums among them.
    order_free = "order_free"
    #: Another room's digests were found in the pages, which takes page digests of both.
    donor = "donor"
    #: Both manifests are here, and list what the pools have.
    manifests = "manifests"
    #: Transfer keys.
    keys = "keys"


class Outcome(Struct, frozen=True):
    """What must be said: the verdict, for a mismatch its cause, and whether a match must exonerate."""

    verdict: Verdict
    cause: Cause | None = None
    exonerated: bool = False


class Row(Struct, frozen=True):
    """If all of ``needs`` was seen: ``outcome``."""

    needs: frozenset[Saw]
    outcome: Outcome


def _if(*needs: Saw, says: Cause | Verdict, exonerated: bool = False) -> Row:
    if isinstance(says, Cause):
        return Row(frozenset(needs), Outcome(Verdict.mismatch, says))
    return Row(frozenset(needs), Outcome(says, None, exonerated))


#: Damage that nobody read is no damage to the join.
_UNSEEN = _if(says=Verdict.match)
_UNEXPLAINED = _if(Saw.place, says=Cause.unexplained)
#: Pages that hold what they held before.
_LEFT_AS_THEY_WERE = (
    _if(Saw.place, Saw.whole_units, Saw.allocate, says=Cause.stale),
    _if(Saw.place, Saw.whole_units, Saw.fresh, Saw.layout, says=Cause.zeroed),
    _UNEXPLAINED,
    _UNSEEN,
)
_LATE = (_if(Saw.place, Saw.later, says=Cause.late), *_LEFT_AS_THEY_WERE)

TABLE: dict[str, tuple[Row, ...]] = {
    # The completion signal came before the bytes, which land later.
    "F1": _LATE,
    # The same, of all chunks but the last.
    "F2": _LATE,
    # A tail that was written with zeros, or was not written at all: see F3 unwritten.
    "F3": (
        _if(Saw.place, Saw.whole_units, Saw.allocate, Saw.fresh, says=Cause.stale),
        _if(Saw.place, Saw.whole_units, Saw.layout, says=Cause.zeroed),
        _UNEXPLAINED,
        _UNSEEN,
    ),
    "F3 unwritten": _LEFT_AS_THEY_WERE,
    # Another room's late write, in the victim's pages.
    "F4": (
        _if(Saw.place, Saw.whole_units, Saw.details, Saw.donor, says=Cause.cross_room),
        _UNEXPLAINED,
        _UNSEEN,
    ),
    "F5": (_if(Saw.manifests, says=Verdict.missing_component), _UNSEEN),
    # A component in the list whose bytes never come.
    "F6": _LEFT_AS_THEY_WERE,
    "F7": (_if(says=Verdict.count_mismatch),),
    "F8 known": (_if(says=Verdict.incomparable),),
    "F8 unknown": (
        _if(Saw.place, Saw.details, Saw.order_free, says=Cause.reordered),
        _UNEXPLAINED,
        _UNSEEN,
    ),
    # One bad pair does anything to bytes; here it flips bits.
    "F9": (_UNEXPLAINED, _UNSEEN),
    "F10": (_if(Saw.keys, says=Verdict.match), _if(says=Verdict.ambiguous)),
    "F11": (_if(says=Verdict.missing_decode),),
    "F12": (_if(Saw.place, Saw.release, says=Cause.source_changed), _UNEXPLAINED, _UNSEEN),
    # Damage after receive: without a later look it is as if nothing had been.
    "F13": (_if(Saw.place, Saw.later, says=Cause.overwritten), _UNSEEN),
    "F14": (_if(says=Verdict.missing_prefill),),
    "F15": (_UNEXPLAINED, _UNSEEN),
    "F16": (_if(says=Verdict.incomparable),),
    "F17": (
        _if(Saw.place, Saw.manifests, says=Verdict.match, exonerated=True),
        _UNSEEN,
    ),
    # The bytes arrived as they were sent, and they were sent too early: only a second look tells.
    "F18": (_if(Saw.place, Saw.second_send, says=Cause.sent_early), _UNSEEN),
}


def tellable(fault: str, saw: Collection[Saw]) -> Outcome:
    """What the join must say of ``fault`` after all that ``saw`` names. ``KeyError`` for an unknown one."""
    seen = frozenset(saw)
    return next(row.outcome for row in TABLE[fault] if row.needs <= seen)
