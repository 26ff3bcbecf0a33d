"""Whose bytes are in a mismatch's pages: the rooms that held those pages, and what they sent.

A donor is named by its page digests where both are known: they must be found in the victim's wrong pages.
Where the donor's are not known it is asked for them, and named as having held the pages meanwhile.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import Connection

from pd_tracer_hooks.runs import expand, runs_of
from pd_tracer_hooks.wire import Detail, Event, EventKind, Observation, Side, Stage
from tracer.join.details import cell_map
from tracer.join.donors import found_in
from tracer.join.model import (
    AnyEntry,
    Cause,
    ComponentVerdict,
    Donor,
    Donors,
    Entry,
    How,
    RoomVerdict,
    Verdict,
)
from tracer.join.parts import gather
from tracer.store.holdings import Holder, holders
from tracer.store.state import RoomState
from tracer.store.statements import Statements
from tracer.store.taking import load_entries

#: Causes that other rooms have no part in: the right bytes came later, or had changed before.
_OWN_FAULT = frozenset({Cause.sent_early, Cause.late, Cause.source_changed, Cause.overwritten})
#: Rooms whose donors are looked for in one flush.
MAX_VICTIMS = 20


@dataclass(frozen=True, slots=True)
class _Victim:
    """One component of one transfer that differs."""

    deployment: str
    room: str
    key: str
    component: str
    entries: Sequence[AnyEntry]


@dataclass(slots=True)
class Search:
    """The donors of a flush's mismatches, and who is to be asked for more."""

    connection: Connection
    statements: Statements
    victims: int = 0
    #: (deployment, donor, victim) and the prefill workers that may have the donor's digests.
    asks: dict[tuple[str, str, str], frozenset[str]] = field(default_factory=dict)

    def of(self, state: RoomState, verdict: RoomVerdict) -> Donors:
        """Donors of a room's latest attempt by (transfer key, component). Nothing for all but mismatches."""
        if verdict.verdict is not Verdict.mismatch or self.victims >= MAX_VICTIMS:
            return {}
        self.victims += 1
        entries = list(state.entries.values())
        found: dict[tuple[str, str], list[Donor]] = {}
        for transfer in verdict.attempts[-1].transfers:
            for component in transfer.components:
                if component.verdict is Verdict.mismatch and component.cause not in _OWN_FAULT:
                    victim = _Victim(*state.ref, transfer.key, component.component, entries)
                    donors = self._component(victim, component)
                    if donors:
                        found[transfer.key, component.component] = donors
        return found

    def _component(self, victim: _Victim, verdict: ComponentVerdict) -> list[Donor]:
        bad = set(expand(verdict.where.page_runs)) if verdict.where is not None else set()
        received = [
            each
            for each in _looks(victim.entries, Stage.receive, victim.key)
            if each.worker.side is Side.decode
        ]
        donors: list[Donor] = []
        for entry in received:
            ordinals = _physical(entry, victim.component, bad)
            if not ordinals:
                continue
            owner = (victim.deployment, entry.worker.id, entry.worker.boot, entry.record.seq)
            held = holders(self.connection, owner, victim.room, victim.component, sorted(ordinals))
            for holder, theirs in zip(held, self._load(victim.deployment, held), strict=True):
                donors += self._donor(victim, holder, theirs, ordinals)
        return donors

    def _load(self, deployment: str, held: Sequence[Holder]) -> list[list[AnyEntry]]:
        if not held:
            return []
        cursor: Any = self.connection.connection.cursor()
        try:
            rows = self.statements.load_records(cursor, [(each.day, deployment, each.room) for each in held])
        finally:
            cursor.close()
        by_room = load_entries(rows)
        return [by_room.get((deployment, each.room), []) for each in held]

    def _donor(
        self, victim: _Victim, holder: Holder, theirs: Sequence[AnyEntry], ordinals: dict[int, int]
    ) -> list[Donor]:
        held_from, held_until = _interval(theirs)
        sent = _cells(theirs, Stage.send, "", victim.component)
        gone = any(
            isinstance(each.record, Detail) and each.record.gone and each.worker.side is Side.prefill
            for each in theirs
        )
        mine = _cells(victim.entries, Stage.receive, victim.key, victim.component)
        if sent and mine:
            donor = found_in(
                holder.room,
                [sent],
                victim_sent=_cells(victim.entries, Stage.send, victim.key, victim.component),
                victim_received=mine,
                held_from=held_from,
                held_until=held_until,
            )
            return [donor] if donor is not None else []
        if not sent and not gone:
            workers = {each.worker.id for each in theirs if each.worker.side is Side.prefill}
            if workers:
                self.asks[victim.deployment, holder.room, victim.room] = frozenset(workers)
        return [
            Donor(
                room=holder.room,
                how=How.held,
                page_runs=runs_of(sorted(ordinals[page] for page in holder.pages)),
                held_from=held_from,
                held_until=held_until,
            )
        ]


def _looks(entries: Iterable[AnyEntry], stage: Stage, key: str) -> list[Entry]:
    """First looks at ``stage`` that serve ``key`` (empty: any), or do not say which they serve."""
    return [
        each  # type: ignore[misc]
        for each in entries
        if isinstance(each.record, Observation)
        and each.record.stage is stage
        and not each.record.look
        and (not key or not each.record.keys or key in each.record.keys)
    ]


def _physical(entry: Entry, name: str, bad: set[int]) -> dict[int, int]:
    """Ordinal by physical page of a component's pages, of the bad ones (none known: of all)."""
    assert isinstance(entry.record, Observation)
    return {
        page: ordinal
        for part in entry.record.components
        if part.name == name
        # Only so many physical runs are sent: the rest of the ordinals has none.
        for ordinal, page in zip(expand(part.runs), expand(part.physical), strict=False)
        if not bad or ordinal in bad
    }


def _cells(entries: Sequence[AnyEntry], stage: Stage, key: str, name: str) -> dict[tuple[int, int], int]:
    """Page digests of a component at a stage, as far as they came."""
    parts = gather(_looks(entries, stage, key)).get(name, [])
    details = [
        (each.worker.id, each.record)
        for each in entries
        if isinstance(each.record, Detail)
        and each.record.stage is stage
        and not each.record.look
        and each.record.component == name
    ]
    return cell_map(parts, details).digests


def _interval(entries: Sequence[AnyEntry]) -> tuple[float | None, float | None]:
    """When a room held its pages, by its decode worker's clock: from ``opened`` to ``freed``."""
    decode = [each for each in entries if each.worker.side is Side.decode]
    opened = [each.record.at for each in decode if not isinstance(each.record, Detail)]
    freed = [
        each.record.at
        for each in decode
        if isinstance(each.record, Event) and each.record.kind is EventKind.freed
    ]
    return min(opened, default=None), max(freed, default=None)
