"""The first half of a flush: lock the rooms, see what is new, append it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from pd_tracer_hooks.wire import Side
from tracer.join.model import AnyEntry, Entry, WorkerRef
from tracer.store.batch import Batch, Outcome
from tracer.store.codec import NaturalKey, RoomRef, decode_record, decode_verdict, kind_of
from tracer.store.state import RoomState, StateCache
from tracer.store.statements import RECORD_COLUMNS, ROOM_COLUMNS, KeyRow, Row, Statements

SECONDS_A_DAY = 86_400


@dataclass(slots=True)
class Taken:
    """The rooms of a flush after its records were appended."""

    #: Every room that was locked.
    states: list[RoomState]
    #: Those of them that have something new.
    to_judge: list[RoomState]
    #: Those of them that are judged again although nothing came.
    rechecked: list[RoomState]


def take_in(
    cursor: Any,
    statements: Statements,
    cache: StateCache,
    *,
    batches: Sequence[tuple[Batch, Outcome]],
    recheck: Sequence[RoomRef],
    counts: Counter[tuple[str, str]],
    now: float,
) -> Taken:
    """Append the records that are new, and count in each batch's outcome what became of its records."""
    keys = _keys(cache, (batch for batch, _ in batches), recheck)
    if not keys:
        return Taken([], [], [])
    locked = statements.lock_rooms(cursor, keys, int(now // SECONDS_A_DAY))
    states = _states(cursor, statements, cache, locked)
    for deployment, room, key in keys:
        if key:
            states[deployment, room].keys.add(key)
    touched: dict[RoomRef, RoomState] = {}
    rows: list[Row] = []
    for batch, outcome in batches:
        _take_batch(batch, outcome, states=states, touched=touched, rows=rows, counts=counts)
    if rows:
        statements.append_records(cursor, rows)
    rechecked = [states[ref] for ref in dict.fromkeys(recheck) if ref not in touched]
    return Taken(list(states.values()), list(touched.values()), rechecked)


def _keys(cache: StateCache, batches: Iterable[Batch], recheck: Iterable[RoomRef]) -> list[KeyRow]:
    """The rows of ``room_keys`` to lock: each room's own, and transfer keys not known to be there."""
    keys: set[KeyRow] = {(*ref, "") for ref in recheck}
    for batch in batches:
        for ref, _, entry, _ in batch.records:
            keys.add((*ref, ""))
            if entry.record.keys:
                known = cache.known_keys(ref)
                keys.update((*ref, key) for key in entry.record.keys if known is None or key not in known)
    return sorted(keys)


def _take_batch(
    batch: Batch,
    outcome: Outcome,
    *,
    states: dict[RoomRef, RoomState],
    touched: dict[RoomRef, RoomState],
    rows: list[Row],
    counts: Counter[tuple[str, str]],
) -> None:
    server, received, run = batch.worker.server, batch.received, batch.worker.run
    for ref, key, entry, body in batch.records:
        state = states[ref]
        kind = kind_of(key.stage)
        first = state.entries.get(key)
        if first is None:
            state.add(key, entry, len(body))
            if run and not state.run:
                state.run = run
            rows.append((state.day, *ref, *key, server, received, body))
            touched[ref] = state
            outcome.accepted += 1
            counts[kind, "accepted"] += 1
        elif first.record == entry.record:
            outcome.duplicate += 1
            counts[kind, "duplicate"] += 1
        else:
            outcome.conflicting += 1
            counts[kind, "conflicting"] += 1


def _states(
    cursor: Any, statements: Statements, cache: StateCache, locked: dict[RoomRef, tuple[int, int]]
) -> dict[RoomRef, RoomState]:
    """What is known of the locked rooms: remembered, new, or read from the database."""
    states: dict[RoomRef, RoomState] = {}
    unknown: list[RoomState] = []
    for ref, (day, version) in locked.items():
        state = cache.take(ref, version)
        if state is None:
            state = RoomState(ref, day, version)
            if version > 1:
                unknown.append(state)
        states[ref] = state
    if unknown:
        wanted = [(state.day, *state.ref) for state in unknown]
        _fill_records(states, statements.load_records(cursor, wanted))
        _fill_rooms(states, statements.load_rooms(cursor, wanted))
    return states


def load_entries(rows: Iterable[Row]) -> dict[RoomRef, list[AnyEntry]]:
    """The records of some rooms, as :meth:`Statements.load_records` returns them."""
    found: dict[RoomRef, list[AnyEntry]] = {}
    for values in rows:
        row = dict(zip(RECORD_COLUMNS, values, strict=True))
        who = WorkerRef(row["worker"], row["boot"], Side(row["side"]), row["server"])
        entry = Entry(who, row["received"], decode_record(row["stage"], bytes(row["body"])))
        found.setdefault((row["deployment"], row["room"]), []).append(entry)
    return found


def _fill_records(states: dict[RoomRef, RoomState], rows: Iterable[Row]) -> None:
    workers: dict[tuple[str, str, str, str], WorkerRef] = {}
    for values in rows:
        row = dict(zip(RECORD_COLUMNS, values, strict=True))
        key = NaturalKey(*(row[name] for name in NaturalKey._fields))
        who = (key.worker, key.boot, key.side, row["server"])
        worker = workers.get(who)
        if worker is None:
            worker = workers[who] = WorkerRef(key.worker, key.boot, Side(key.side), row["server"])
        body = bytes(row["body"])
        record = decode_record(key.stage, body)
        state = states[row["deployment"], row["room"]]
        state.add(key, Entry(worker, row["received"], record), len(body))
        state.keys.update(record.keys)


def _fill_rooms(states: dict[RoomRef, RoomState], rows: Iterable[Row]) -> None:
    for values in rows:
        row = dict(zip(ROOM_COLUMNS, values, strict=True))
        state = states[row["deployment"], row["room"]]
        state.verdict = decode_verdict(row["body"])
        state.first_seen = row["first_seen"]
        state.last_seen = row["last_seen"]
        state.settled_at = row["settled_at"]
        state.revisions = row["revisions"]
        state.run = row["run"]
