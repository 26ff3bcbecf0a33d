"""Which cause the collector can tell of each fault, given what is observed: by a table written beforehand."""

from __future__ import annotations

from itertools import pairwise

from pd_tracer_hooks.digest.definition import bucket_edges
from tracer.demo.faults import Aim
from tracer.demo.geometry import Geometry, shape_of
from tracer.demo.plan import Fault, PlannedRoom, Stages
from tracer.join.model import Cause
from tracer.join.tellable import Outcome, Saw, tellable

#: All that can be observed of a pool that was used before.
_ALL = frozenset(Saw) - {Saw.fresh}

#: The row of the table for each fault that damages bytes.
ROWS: dict[Fault, str] = {
    Fault.bit_flip: "F15",
    Fault.wire_bit_flip: "F15",
    Fault.tail_unwritten: "F3 unwritten",
    Fault.tail_unwritten_fresh: "F3 unwritten",
    Fault.tail_zeroed: "F3",
    Fault.early_completion: "F1",
    Fault.chunks_late: "F2",
    Fault.component_withheld: "F6",
    # Bytes of a room that never had these pages: no more can be said than of any other damage.
    Fault.other_rooms_pages: "F15",
    Fault.late_write: "F4",
    Fault.rows_reordered: "F8 unknown",
    Fault.pages_reordered: "F8 unknown",
    Fault.source_changed: "F12",
    Fault.sent_early: "F18",
    Fault.overwritten: "F13",
}

#: The cause that each is called by, where the evidence is complete.
CAUSES: dict[Fault, Cause] = {
    fault: cause for fault, row in ROWS.items() if (cause := tellable(row, _ALL).cause) is not None
}

_EVERY_STAGE = frozenset({Saw.later, Saw.release, Saw.allocate, Saw.second_send})
_ALWAYS = frozenset({Saw.place, Saw.layout, Saw.manifests, Saw.keys})
#: What page digests can bring: at best, and for certain once the collector has asked for them.
_DETAILS = frozenset({Saw.details, Saw.order_free, Saw.donor})
_CERTAIN = _DETAILS


def saw(
    room: PlannedRoom, hit: Aim, geometry: Geometry, stages: Stages, details: frozenset[Saw]
) -> frozenset[Saw]:
    """What is observed of ``room`` at full coverage. ``details``: what page digests brought."""
    seen = _ALWAYS | (_EVERY_STAGE if stages == "all" else frozenset()) | details
    if hit.fault is Fault.tail_unwritten_fresh:
        seen |= {Saw.fresh}
    if _whole_units(room, hit, geometry, details=bool(details)):
        seen |= {Saw.whole_units}
    return seen


def told_at_best(
    room: PlannedRoom,
    hit: Aim,
    geometry: Geometry,
    stages: Stages,
    details: frozenset[Saw] = _DETAILS,
) -> Outcome | None:
    """What is to be said of a room that ``hit`` was done to; None if the fault damages no bytes."""
    row = ROWS.get(hit.fault)
    if row is None:
        return None
    return tellable(row, saw(room, hit, geometry, stages, details))


def told_for_certain(
    room: PlannedRoom, hit: Aim, geometry: Geometry, stages: Stages
) -> frozenset[Cause | None]:
    """The causes of which one will be told once the collector has page digests; empty without damage."""
    said = (told_at_best(room, hit, geometry, stages, brought) for brought in (_CERTAIN, _DETAILS))
    return frozenset(outcome.cause for outcome in said if outcome is not None)


def told_of(room: PlannedRoom, hit: Aim, geometry: Geometry, stages: Stages, cause: Cause) -> str:
    """``told`` if ``cause`` is the one to be said; ``untold`` if it is what would be with fewer page digests.

    Else ``wrong``; empty if the fault damages no bytes.
    """
    best = told_at_best(room, hit, geometry, stages)
    if best is None:
        return ""
    if cause is best.cause:
        return "told"
    if hit.fault is Fault.other_rooms_pages and cause is Cause.cross_room:
        return "told"  # the other room had these pages before, by chance
    less = (told_at_best(room, hit, geometry, stages, brought) for brought in (_CERTAIN, frozenset[Saw]()))
    weaker = {outcome.cause for outcome in less if outcome is not None}
    return "untold" if cause in weaker | {Cause.unexplained} else "wrong"


def _whole_units(room: PlannedRoom, hit: Aim, geometry: Geometry, *, details: bool) -> bool:
    """Whether a unit that the collector knows the digest of is damaged as a whole.

    A page that is damaged from ``offset`` on is not.
    """
    pages = set(hit.pages[1:] if hit.offset else hit.pages)
    if details:
        return bool(pages)
    if not hit.component or hit.layers != geometry.layer_ids(hit.component):
        return False
    edges = bucket_edges(shape_of(room.tokens, geometry).pages)
    return any(pages.issuperset(range(first, end)) for first, end in pairwise(edges))
