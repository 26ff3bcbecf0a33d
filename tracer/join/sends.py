"""The prefill side's records, placed: which transfers of the room each of them served.

A record with keys serves the transfers of those keys. Without one, it is placed only where nothing else is
possible. What could belong to several transfers is held back and makes them ambiguous: blaming nobody is
better than blaming the wrong transfer.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise

from pd_tracer_hooks.wire import Event, EventKind, Stage
from tracer.join.model import Entry
from tracer.join.order import Moment, by_worker, moments
from tracer.join.rounds import rounds_of
from tracer.join.transfers import Draft, Transfer, is_look, leave_open

_NO_KEY = "several transfers of this room were open and no transfer key tells which one the sends were for"
_ROUNDS = "the transfer key was used {opened} times and {sent}: which send was for which cannot be told"

#: Events that come before the sends they speak of.
_BEGINS = frozenset({EventKind.started, EventKind.opened})


def place_sends(prefill: Sequence[Entry], drafts: list[Draft]) -> None:
    """Place the prefill side's entries (in canonical order); adds attempts that only prefill speaks of."""
    keyed: dict[str, list[Entry]] = {}
    loose: list[Entry] = []
    for entry in prefill:
        for key in dict.fromkeys(entry.record.keys):
            keyed.setdefault(key, []).append(entry)
        if not entry.record.keys:
            loose.append(entry)
    drafts.sort(key=lambda draft: draft.moment)
    opened: dict[str, list[Transfer]] = {}
    for draft in drafts:
        for key, transfer in draft.transfers.items():
            opened.setdefault(key, []).append(transfer)
    unknown: dict[str, list[Entry]] = {}
    for key, entries in keyed.items():
        transfers = opened.get(key, [])
        if not transfers:
            unknown[key] = entries
        elif len(transfers) == 1:
            transfers[0].prefill += entries
        else:
            _pair(transfers, entries, needs_end=False)
    if unknown:
        _place_unknown(unknown, drafts, loose)
        drafts.sort(key=lambda draft: draft.moment)
    if loose:
        _place_loose(loose, drafts)


def _place_unknown(unknown: dict[str, list[Entry]], drafts: list[Draft], loose: Sequence[Entry]) -> None:
    """Keys that decode has not named: its records carry none, or they are still to come."""
    blank = [draft.transfers[""] for draft in drafts if "" in draft.transfers]
    blank = [transfer for transfer in blank if transfer.expects_send]
    if blank and not any(is_look(entry, Stage.send) for entry in loose):
        if len(blank) == 1 and len(unknown) == 1:
            key, entries = next(iter(unknown.items()))
            blank[0].prefill += entries
            _rename(drafts, blank[0], key)
            return
        sends = {id(e): e for entries in unknown.values() for e in entries if is_look(e, Stage.send)}
        leave_open(blank, list(sends.values()), _NO_KEY, may_pass=False)
        return
    own: dict[tuple[str, str], Draft] = {}
    for key, entries in unknown.items():
        companion = _companion(entries, drafts)
        if companion is None:
            first = next((entry for entry in entries if is_look(entry, Stage.send)), entries[0])
            identity = (first.worker.server, first.record.request)
            moment = _first_moment(entries)
            companion = own.setdefault(identity, Draft(moment))
            companion.moment = min(companion.moment, moment)
        companion.transfers.setdefault(key, Transfer(key)).prefill += entries
    drafts += own.values()


def _rename(drafts: Iterable[Draft], transfer: Transfer, key: str) -> None:
    for draft in drafts:
        if draft.transfers.get("") is transfer:
            del draft.transfers[""]
            draft.transfers[key] = transfer
    transfer.key = key


def _companion(entries: Sequence[Entry], drafts: Sequence[Draft]) -> Draft | None:
    """The latest attempt with a key that was served by one of the same sends."""
    keys = {key for entry in entries if is_look(entry, Stage.send) for key in entry.record.keys}
    return next((draft for draft in reversed(drafts) if not keys.isdisjoint(draft.transfers)), None)


def _first_moment(entries: Sequence[Entry]) -> Moment:
    return min(moments(mine)[0] for mine in by_worker(entries).values())


def _place_loose(loose: list[Entry], drafts: list[Draft]) -> None:
    """Records without a key."""
    orphans: list[Entry] = []
    for entry in loose:
        home = _same_sender(entry, drafts)
        if home is None:
            orphans.append(entry)
        for transfer in home or []:
            transfer.prefill.append(entry)
    sends = [entry for entry in orphans if is_look(entry, Stage.send)]
    others = [entry for entry in orphans if not is_look(entry, Stage.send)]
    if not drafts:
        _found(orphans, drafts)
        return
    if sends:
        _place_orphans(sends, drafts)
    for entry in others:
        for transfer in _home_by_time(entry, drafts).transfers.values():
            transfer.prefill.append(entry)


def _place_orphans(sends: list[Entry], drafts: Sequence[Draft]) -> None:
    """Sends of which only the room is known: for the one transfer that has none, or in order, or open."""
    everyone = [(draft, transfer) for draft in drafts for transfer in draft.transfers.values()]
    everyone = [(draft, transfer) for draft, transfer in everyone if transfer.expects_send] or everyone
    unsent = [(draft, transfer) for draft, transfer in everyone if not transfer.sent] or everyone
    candidates = [transfer for _, transfer in unsent]
    if len(candidates) == 1:
        candidates[0].prefill += sends
    elif len({id(draft) for draft, _ in unsent}) == len(candidates):
        _pair(candidates, sends, needs_end=True)
    else:
        leave_open(candidates, sends, _NO_KEY, may_pass=False)


def _same_sender(entry: Entry, drafts: Sequence[Draft]) -> list[Transfer] | None:
    """Transfers that the same worker served with keys, for the same request, if all are of one attempt.

    So a first chunk that went out before the key was known follows the later ones.
    """
    request = entry.record.request
    homes = [
        [
            transfer
            for transfer in draft.transfers.values()
            if any(_same_source(entry, other, request) for other in transfer.prefill)
        ]
        for draft in drafts
    ]
    served = [home for home in homes if home]
    if len(served) != 1 or (not request and len(drafts) > 1):
        return None
    return served[0]


def _same_source(entry: Entry, other: Entry, request: str) -> bool:
    return (
        bool(other.record.keys)
        and other.record.request == request
        and other.worker.id == entry.worker.id
        and other.worker.boot == entry.worker.boot
        and is_look(other, Stage.send)
    )


def _found(orphans: Sequence[Entry], drafts: list[Draft]) -> None:
    """A room of which only prefill speaks, without keys: one attempt for each request."""
    own: dict[tuple[str, str], list[Entry]] = {}
    for entry in orphans:
        own.setdefault((entry.worker.server, entry.record.request), []).append(entry)
    for entries in own.values():
        draft = Draft(_first_moment(entries), {"": Transfer("", prefill=entries)})
        drafts.append(draft)


def _home_by_time(entry: Entry, drafts: Sequence[Draft]) -> Draft:
    """The attempt that an event without a key speaks of: by request, else the latest begun by then."""
    request = entry.record.request
    ordered = sorted(drafts, key=lambda draft: draft.moment)
    if request:
        for draft in reversed(ordered):
            known = [e for t in draft.transfers.values() for e in (*t.prefill, *t.unplaced)]
            if any(e.record.request == request and e is not entry for e in known):
                return draft
    begun = [draft for draft in ordered if draft.moment[0] <= entry.received]
    return begun[-1] if begun else ordered[0]


def _pair(transfers: Sequence[Transfer], entries: Sequence[Entry], *, needs_end: bool) -> None:
    """Place the entries of one key that several attempts used, in order, or leave them open."""
    expecting = [transfer for transfer in transfers if transfer.expects_send]
    sends = [entry for entry in entries if is_look(entry, Stage.send)]
    others = [entry for entry in entries if not is_look(entry, Stage.send)]
    if not expecting:
        transfers[-1].prefill += entries
        return
    rounds = rounds_of(sends)
    count = len(expecting)
    if not _in_sequence(expecting, needs_end=needs_end):
        leave_open(expecting, sends, _NO_KEY, may_pass=False)
    elif rounds.least == rounds.most == count:
        for number, transfer in enumerate(expecting):
            transfer.prefill += rounds.of(number)
    elif not sends:
        pass
    else:
        told = "sent once" if rounds.most == 1 else f"sent {rounds.most} times"
        why = _ROUNDS.format(opened=count, sent=told)
        leave_open(expecting, sends, why, may_pass=rounds.most <= count)
    for entry in others:
        begins = isinstance(entry.record, Event) and entry.record.kind in _BEGINS
        number = rounds.number_of(entry, begins=begins)
        expecting[min(number, count - 1)].prefill.append(entry)


def _in_sequence(transfers: Sequence[Transfer], *, needs_end: bool) -> bool:
    """Whether each transfer was over when the next began.

    For one key that is so by nature, as the key names memory that was granted again, unless the earlier
    one ended only after the later ``opened``. Without a key it must be shown (``needs_end``).
    """
    return all(_over_before(earlier, later, needs_end=needs_end) for earlier, later in pairwise(transfers))


def _over_before(earlier: Transfer, later: Transfer, *, needs_end: bool) -> bool:
    shown = False
    for old in earlier.openings:
        for new in later.openings:
            if (old.worker, old.boot) != (new.worker, new.boot) or old.ended_by is None:
                continue
            if old.ended_by > new.moment[3]:
                return False
            shown = True
    return shown or not needs_end
