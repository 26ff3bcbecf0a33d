"""The decode side's records, told apart: which opening each belongs to, and which attempt that is.

An attempt is what one decode server opened for one request. A worker that opens the same key again, or
another one after the first had ended, has begun the next attempt. Where ``opened`` was lost, the records
that follow it stand for it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from pd_tracer_hooks.wire import Event, EventKind, Observation, Stage
from tracer.join.model import Entry
from tracer.join.order import Moment, by_worker, moments
from tracer.join.transfers import Draft, Opening, Transfer


def open_attempts(decode: Sequence[Entry]) -> list[Draft]:
    """The attempts that the decode side's entries (in canonical order) speak of, in no order yet."""
    openings: list[Opening] = []
    homeless: list[Entry] = []
    for mine in by_worker(decode).values():
        worker = _Worker()
        worker.take(mine)
        openings += worker.openings
        homeless += worker.homeless
    drafts = _group(openings)
    for entry in homeless:
        _settle_homeless(entry, drafts)
    return drafts


class _Worker:
    """One decode worker's records, taken in the order in which it made them."""

    def __init__(self) -> None:
        self.openings: list[Opening] = []
        #: Events that name no key, from before any opening.
        self.homeless: list[Entry] = []
        self._by_key: dict[str, list[Opening]] = {}
        #: The openings of each request's current round.
        self._current: dict[str, list[Opening]] = {}

    def take(self, mine: Sequence[Entry]) -> None:
        """Put every record with its opening."""
        early: list[tuple[Entry, Moment, str]] = []
        for entry, moment in zip(mine, moments(mine), strict=True):
            record = entry.record
            opens = isinstance(record, Event) and record.kind is EventKind.opened
            for key in dict.fromkeys(record.keys) or ("",):
                found = [] if opens else self._find(entry, key)
                if found and _is_allocate(record) and found[0].ended_by is not None:
                    early.append((entry, moment, key))  # of pages that are handed out again
                    continue
                if not found and not opens:
                    if not key and isinstance(record, Event):
                        self.homeless.append(entry)
                        continue
                    if not _stands_for_opened(record):
                        early.append((entry, moment, key))
                        continue
                for opening in found or [self._open(entry, moment, key)]:
                    opening.entries.append(entry)
        for entry, moment, key in early:
            same_life = [o for o in self._by_key.get(key, ()) if o.boot == entry.worker.boot]
            later = [o for o in same_life if o.moment[3] > entry.record.seq] or same_life
            opening = later[0] if later else self._open(entry, moment, key)
            opening.entries.append(entry)

    def _open(self, entry: Entry, moment: Moment, key: str) -> Opening:
        worker, request = entry.worker, entry.record.request
        opening = Opening(worker.id, worker.boot, worker.server, key, request, moment)
        current = self._current.setdefault(request, [])
        if current:
            again = any(
                other.key == key or other.boot != worker.boot or other.ended_by is not None
                for other in current
            )
            opening.round = current[0].round + again
            if again:
                current.clear()
        current.append(opening)
        self.openings.append(opening)
        self._by_key.setdefault(key, []).append(opening)
        return opening

    def _find(self, entry: Entry, key: str) -> list[Opening]:
        """The openings that a record belongs to: one, or for an event without a key a request's all."""
        named = _latest(self._by_key.get(key, ()), entry)
        if named is not None:
            return [named]
        mine = [opening for opening in self.openings if opening.boot == entry.worker.boot]
        if key:
            return self._name(mine, entry, key)
        if isinstance(entry.record, Event):
            last = _latest(mine, entry)
            if last is None:
                return []
            return [o for o in mine if o.request == last.request and o.round == last.round]
        waiting = [opening for opening in mine if not opening.received] or mine
        return waiting if len(waiting) == 1 else []

    def _name(self, mine: Sequence[Opening], entry: Entry, key: str) -> list[Opening]:
        """The one opening that did not know its key yet, which a record now names."""
        waiting = [opening for opening in mine if not opening.key and not opening.received]
        if len(waiting) != 1 or waiting[0].request not in ("", entry.record.request):
            return []
        self._by_key[""].remove(waiting[0])
        self._by_key.setdefault(key, []).append(waiting[0])
        waiting[0].key = key
        return waiting


def _latest(openings: Sequence[Opening], entry: Entry) -> Opening | None:
    """The latest opening of the record's life: of its request if there is one, else any."""
    found: Opening | None = None
    for opening in reversed(openings):
        if opening.boot == entry.worker.boot:
            if not entry.record.request or opening.request == entry.record.request:
                return opening
            found = found or opening
    return found


def _is_allocate(record: Observation | Event) -> bool:
    return isinstance(record, Observation) and record.stage is Stage.allocate


def _stands_for_opened(record: Observation | Event) -> bool:
    """Whether a record shows that a transfer was opened, although its ``opened`` is not here."""
    if isinstance(record, Event):
        return record.kind not in (EventKind.freed, EventKind.started, EventKind.checked)
    return not _is_allocate(record)


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
    begun = [d for d in drafts if d.decode_server == entry.worker.server] or drafts
    begun = [d for d in begun if d.moment[0] <= entry.received] or begun
    if not begun:
        worker, record = entry.worker, entry.record
        alone = Opening(worker.id, worker.boot, worker.server, "", record.request, moments([entry])[0])
        drafts += _group([alone])
        begun = drafts
    latest = max(begun, key=lambda draft: draft.moment)
    for transfer in latest.transfers.values():
        transfer.openings[0].entries.append(entry)
