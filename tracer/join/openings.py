"""The decode side's records, told apart: which opening each belongs to, and which attempt that is.

An attempt is what one decode server opened for one request. A worker that opens the same key again, or
another one after the first had ended, has begun the next attempt. Where ``opened`` was lost, the records
that follow it stand for it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from pd_tracer_hooks.wire import Event, EventKind, Observation, Stage
from tracer.join.model import Entry
from tracer.join.order import by_worker, moments
from tracer.join.transfers import Draft, Opening, Transfer


def open_attempts(decode: Sequence[Entry]) -> list[Draft]:
    """The attempts that the decode side's entries (in canonical order) speak of, in no order yet."""
    openings: list[Opening] = []
    homeless: list[Entry] = []
    for mine in by_worker(decode).values():
        found, left = _of_worker(mine)
        openings += found
        homeless += left
    drafts = _group(openings)
    for entry in homeless:
        _settle_homeless(entry, drafts)
    return drafts


def _of_worker(mine: Sequence[Entry]) -> tuple[list[Opening], list[Entry]]:
    """One worker's openings, and events that name no key while none of its openings is known."""
    openings: list[Opening] = []
    early: list[Entry] = []
    homeless: list[Entry] = []
    for entry, moment in zip(mine, moments(mine), strict=True):
        record = entry.record
        opens = isinstance(record, Event) and record.kind is EventKind.opened
        for key in record.keys or [""]:
            opening = None if opens else _find(openings, entry, key)
            if opening is None and not opens:
                if not key and isinstance(record, Event):
                    homeless.append(entry)
                    continue
                if not _stands_for_opened(record):
                    early.append(entry)
                    continue
            if opening is None:
                opening = Opening(
                    entry.worker.id, entry.worker.boot, entry.worker.server, key, record.request, moment
                )
                opening.round = _round(openings, opening)
                openings.append(opening)
            opening.entries.append(entry)
    for entry in early:
        _attach_early(openings, entry, moments([entry])[0])
    return openings, homeless


def _stands_for_opened(record: Observation | Event) -> bool:
    """Whether a record shows that a transfer was opened, although its ``opened`` is not here."""
    if isinstance(record, Event):
        return record.kind not in (EventKind.freed, EventKind.started)
    return record.stage is not Stage.allocate


def _find(openings: Sequence[Opening], entry: Entry, key: str) -> Opening | None:
    """The opening of the same life that a record belongs to: the latest of its key, by request if told."""
    mine = [o for o in openings if o.boot == entry.worker.boot]
    named = [o for o in mine if o.key == key]
    if named:
        mine = named
    elif key:
        mine = _keyless(mine, entry, key)
    else:
        mine = _without_key(mine, entry)
    if not mine:
        return None
    request = entry.record.request
    return next((o for o in reversed(mine) if request and o.request == request), mine[-1])


def _keyless(mine: list[Opening], entry: Entry, key: str) -> list[Opening]:
    """The opening that did not know its key yet, which a record now names."""
    waiting = [o for o in mine if not o.key and not o.received]
    if len(waiting) != 1 or (waiting[0].request and waiting[0].request != entry.record.request):
        return []
    waiting[0].key = key
    return waiting


def _without_key(mine: list[Opening], entry: Entry) -> list[Opening]:
    """Openings that a record without a key may belong to."""
    if isinstance(entry.record, Event):
        return mine[-1:]
    waiting = [o for o in mine if not o.received]
    candidates = waiting or mine
    return candidates if len(candidates) == 1 else []


def _round(openings: Sequence[Opening], new: Opening) -> int:
    same = [o for o in openings if o.request == new.request]
    if not same:
        return 0
    current = max(o.round for o in same)
    for opening in same:
        if opening.round == current and (
            opening.key == new.key or opening.boot != new.boot or opening.ended_by is not None
        ):
            return current + 1
    return current


def _attach_early(openings: list[Opening], entry: Entry, moment: tuple[float, str, str, int]) -> None:
    """A record from before its ``opened`` (such as ``allocate``): it belongs to the first opening."""
    for key in entry.record.keys or [""]:
        mine = [o for o in openings if o.key == key and o.boot == entry.worker.boot]
        if not mine:
            opening = Opening(
                entry.worker.id, entry.worker.boot, entry.worker.server, key, entry.record.request, moment
            )
            opening.round = _round(openings, opening)
            openings.append(opening)
            mine = [opening]
        if entry not in mine[0].entries:
            mine[0].entries.append(entry)


def _group(openings: Iterable[Opening]) -> list[Draft]:
    listed = list(openings)
    requests: dict[tuple[str, str], set[str]] = {}
    for opening in listed:
        if opening.request:
            requests.setdefault((opening.server, opening.key), set()).add(opening.request)
    drafts: dict[tuple[str, str, int], Draft] = {}
    for opening in listed:
        request = opening.request
        if not request:
            known = requests.get((opening.server, opening.key), set())
            request = next(iter(known)) if len(known) == 1 else ""
        identity = (opening.server, request, opening.round)
        draft = drafts.get(identity)
        if draft is None:
            draft = drafts[identity] = Draft(
                opening.moment, decode_server=opening.server, request_decode=request
            )
        draft.moment = min(draft.moment, opening.moment)
        transfer = draft.transfers.get(opening.key)
        if transfer is None:
            transfer = draft.transfers[opening.key] = Transfer(opening.key)
        transfer.openings.append(opening)
    return list(drafts.values())


def _settle_homeless(entry: Entry, drafts: list[Draft]) -> None:
    """An event without a key from a worker that opened nothing: it is of its server's latest attempt."""
    moment = moments([entry])[0]
    begun = [d for d in drafts if d.decode_server == entry.worker.server] or drafts
    begun = [d for d in begun if d.moment[0] <= entry.received] or begun
    if not begun:
        opening = Opening(
            entry.worker.id, entry.worker.boot, entry.worker.server, "", entry.record.request, moment
        )
        drafts.extend(_group([opening]))
        begun = drafts
    latest = max(begun, key=lambda d: d.moment)
    for transfer in latest.transfers.values():
        transfer.openings[0].entries.append(entry)
