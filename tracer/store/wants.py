"""What workers are asked for after a mismatch, and how answers come to repeat it.

A mismatch asks the workers of both sides for the page digests of the room, and those of its pair to look
closer for some minutes. That stands in the database, so that any collector's answer repeats it and a restart
forgets none; it ends when the worker's details have come, or when it expires. What answers read is a copy in
memory: while nothing is wanted it costs a look into an empty map.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from sqlalchemy import Connection, delete, func, select, tuple_

from pd_tracer_hooks.wire import Detail, Want
from tracer.asks import AskPolicy
from tracer.store.batch import Batch
from tracer.store.codec import RoomRef
from tracer.store.schema import wants
from tracer.store.upsert import insert_missing

DETAIL, DEEP = "detail", "deep"
#: Wants in one answer.
MAX_IN_ANSWER = 64
#: Wants that are remembered and repeated, over all workers.
MAX_OPEN = 20_000


@dataclass(frozen=True)
class Mismatched:
    """A room that has just become a mismatch, and who may know more."""

    deployment: str
    room: str
    #: The pair as people write it.
    pair: str
    workers: frozenset[str]


class Open(NamedTuple):
    """One row of the table."""

    deployment: str
    worker: str
    kind: str
    room: str
    pair: str
    created: float
    expires: float


_Name = tuple[str, str]
#: Deployment, worker, kind, room.
_Key = tuple[str, str, str, str]


class Wants:
    """What is wanted now. ``of`` may be called by any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._open: dict[_Name, dict[_Key, Open]] = {}

    def of(self, deployment: str, worker: str, now: float) -> list[Want]:
        """What an answer to this worker repeats, the latest first."""
        if not self._open:
            return []
        with self._lock:
            found = list(self._open.get((deployment, worker), {}).values())
        return [
            Want(kind=row.kind, room=row.room, until=row.expires, for_s=row.expires - now)
            for row in sorted(found, key=lambda row: -row.created)
            if row.expires > now
        ][:MAX_IN_ANSWER]

    def add(self, rows: Iterable[Open]) -> None:
        """Rows that were committed."""
        with self._lock:
            for row in rows:
                self._open.setdefault((row.deployment, row.worker), {})[row[:4]] = row

    def remove(self, keys: Iterable[_Key]) -> None:
        """Rows that are gone."""
        with self._lock:
            for key in keys:
                mine = self._open.get(key[:2])
                if mine is not None:
                    mine.pop(key, None)
                    if not mine:
                        del self._open[key[:2]]

    def refresh(self, connection: Connection, now: float) -> None:
        """Read what is wanted, whichever collector asked for it."""
        columns = (wants.c[name] for name in Open._fields)
        query = select(*columns).where(wants.c.expires > now).order_by(wants.c.created.desc()).limit(MAX_OPEN)
        found: dict[_Name, dict[_Key, Open]] = {}
        for values in connection.execute(query):
            row = Open(*values)
            found.setdefault((row.deployment, row.worker), {})[row[:4]] = row
        with self._lock:
            self._open = found


class Asking:
    """Writes the table. Belongs to the writer's thread."""

    def __init__(self, policy: AskPolicy, wants: Wants) -> None:
        self._policy = policy
        self._wants = wants

    def write(
        self,
        connection: Connection,
        batches: Sequence[Batch],
        mismatched: Sequence[Mismatched],
        now: float,
        donors: Sequence[Mismatched] = (),
    ) -> Callable[[], None]:
        """End what was answered, ask for what is new; of ``donors`` for details only.

        Call the result after the commit.
        """
        done = sorted(_answered(batches))
        if done:
            key = tuple_(wants.c.deployment, wants.c.worker, wants.c.kind, wants.c.room)
            connection.execute(delete(wants).where(key.in_(done)))
        asked = self._ask(connection, mismatched, donors, now) if mismatched or donors else []
        if not done and not asked:
            return lambda: None

        def remember() -> None:
            self._wants.remove(done)
            self._wants.add(asked)

        return remember

    def _ask(
        self,
        connection: Connection,
        mismatched: Sequence[Mismatched],
        donors: Sequence[Mismatched],
        now: float,
    ) -> list[Open]:
        connection.execute(delete(wants).where(wants.c.expires <= now))
        rows = [
            *self._details(connection, [*mismatched, *donors], now),
            *self._deep(connection, mismatched, now),
        ]
        insert_missing(connection, wants, [row._asdict() for row in rows])
        return rows

    def _details(self, connection: Connection, mismatched: Sequence[Mismatched], now: float) -> list[Open]:
        room = func.count(wants.c.room.distinct())
        is_open = connection.execute(select(room).where(wants.c.kind == DETAIL)).scalar_one()
        places = max(0, self._policy.detail_rooms - is_open) if self._policy.detail_s else 0
        return [
            Open(each.deployment, worker, DETAIL, each.room, "", now, now + self._policy.detail_s)
            for each in mismatched[:places]
            for worker in sorted(each.workers)
        ]

    def _deep(self, connection: Connection, mismatched: Sequence[Mismatched], now: float) -> list[Open]:
        if not self._policy.deep_s:
            return []
        query = select(wants.c.deployment, wants.c.pair).where(wants.c.kind == DEEP).distinct()
        known = {tuple(row) for row in connection.execute(query)}
        rows: dict[_Key, Open] = {}
        for each in mismatched:
            pair = (each.deployment, each.pair)
            if pair not in known and len(known) >= self._policy.deep_pairs:
                continue
            known.add(pair)
            for worker in each.workers:
                row = Open(each.deployment, worker, DEEP, "", each.pair, now, now + self._policy.deep_s)
                rows.setdefault(row[:4], row)
        return [rows[key] for key in sorted(rows)]


def donors_of(asks: Mapping[tuple[str, str, str], frozenset[str]]) -> list[Mismatched]:
    """What is asked for of other rooms: (deployment, donor, victim) and workers."""
    return [Mismatched(deployment, donor, "", workers) for (deployment, donor, _), workers in asks.items()]


def detailed_rooms(batches: Iterable[Batch]) -> set[RoomRef]:
    """Rooms of which ``batches`` bring details."""
    return {(deployment, room) for deployment, _, _, room in _answered(batches)}


def _answered(batches: Iterable[Batch]) -> set[_Key]:
    """What the details in ``batches`` answer. The rest of an answer follows its first detail at once."""
    return {
        (ref[0], batch.worker.id, DETAIL, ref[1])
        for batch in batches
        for ref, _, entry, _ in batch.records
        if isinstance(entry.record, Detail)
    }
