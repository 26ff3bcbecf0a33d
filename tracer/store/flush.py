"""One transaction: records in, verdicts out.

The order of its steps is what makes it right. First the rooms are locked by one sorted upsert, which
keeps collectors that share a database from deadlocking. Only then are records compared with what is
there and appended, so a repetition is seen whoever got the first. Then each room that was touched is
judged once, and rooms, pairs and roll-ups are written. Tables are written in one order everywhere.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from sqlalchemy import Connection, select

from tracer.asks import AskPolicy
from tracer.join.model import Policy, Verdict
from tracer.store.batch import Batch, Outcome, Recheck
from tracer.store.codec import RoomRef
from tracer.store.donors import Search
from tracer.store.holdings import Holdings, ask_for, victims_of
from tracer.store.judging import Judging
from tracer.store.manifests import ManifestBook
from tracer.store.names import Names
from tracer.store.rollups import PairBook, PairKey, add_rollups
from tracer.store.schema import rooms
from tracer.store.state import StateCache
from tracer.store.statements import Statements
from tracer.store.taking import take_in
from tracer.store.tally import Tally
from tracer.store.wants import Asking, Wants, detailed_rooms, donors_of
from tracer.store.workers import WorkerBook

Job = Batch | Recheck

#: A manifest that comes late has at most this many pending rooms of its server judged again.
MAX_RECHECKED = 2000


@dataclass(slots=True)
class Flushed:
    """What a committed transaction did."""

    #: One for each job, in order. A recheck's stays empty.
    outcomes: list[Outcome]
    tally: Tally
    #: Rooms to judge again because a manifest came after them.
    recheck: list[RoomRef] = field(default_factory=list)


class Flusher:
    """Runs transactions on the writer's connection. Belongs to one thread.

    Its memory (rooms, names, manifests, workers, pairs) is only a copy of the database, dropped
    wherever it could be wrong.
    """

    def __init__(
        self,
        statements: Statements,
        policy: Policy,
        *,
        replica: str,
        pairs: Sequence[PairKey] = (),
        asking: Asking | None = None,
        holdings: Holdings | None = None,
    ) -> None:
        self._statements = statements
        self._asking = asking or Asking(AskPolicy(), Wants())
        self._holdings = holdings or Holdings(0.0)
        self._replica = replica
        self._cache = StateCache()
        self._names = Names()
        self._manifests = ManifestBook()
        self._workers = WorkerBook()
        self._pairs = PairBook(pairs)
        self._judging = Judging(policy, self._names, self._manifests)

    def flush(self, connection: Connection, jobs: Sequence[Job], now: float) -> Flushed:
        """Write ``jobs`` in one transaction and commit it.

        Raises whatever the driver or SQLAlchemy raises; then nothing of it is written or remembered.
        """
        try:
            with connection.begin():
                flushed, committed = self._write(connection, jobs, now)
        except BaseException:
            self._names.forget()
            self._manifests.forget()
            raise
        for remember in committed:
            remember()
        return flushed

    def _write(
        self, connection: Connection, jobs: Sequence[Job], now: float
    ) -> tuple[Flushed, list[Callable[[], None]]]:
        outcomes = [Outcome() for _ in jobs]
        tally = Tally()
        flushed = Flushed(outcomes, tally)
        pairs = [
            (job, outcome) for job, outcome in zip(jobs, outcomes, strict=True) if isinstance(job, Batch)
        ]
        batches = [batch for batch, _ in pairs]
        refs = [ref for job in jobs if isinstance(job, Recheck) for ref in job.refs]

        cursor = connection.connection.cursor()
        try:
            taken = take_in(
                cursor,
                self._statements,
                self._cache,
                batches=pairs,
                recheck=refs,
                counts=tally.records,
                now=now,
            )
            newcomers = self._manifests.write(connection, pairs, tally.records)
            remember_workers = self._workers.write(connection, batches, tally.drops)
            self._names.learn(connection, batches)
            days = {state.ref: state.day for state in taken.to_judge}
            self._holdings.write(connection, self._statements, batches, days, now)
            search = Search(connection, self._statements) if self._holdings.keep_s else None
            judged = self._judging.judge_all(
                connection, taken.to_judge, taken.rechecked, now, tally, search=search
            )
            if judged.new_rows:
                self._statements.insert_rooms(cursor, judged.new_rows)
            if judged.rows:
                self._statements.write_rooms(cursor, judged.rows)
        finally:
            cursor.close()
        tally.pairs, remember_pairs = self._pairs.write(connection, judged.pairs, now)
        add_rollups(connection, judged.deltas, now=now, replica=self._replica)
        asks = search.asks if search is not None else {}
        remember_wants = self._asking.write(connection, batches, judged.mismatched, now, donors_of(asks))
        ask_for(connection, asks, now)
        answered = detailed_rooms(batches)
        if answered:
            flushed.recheck += victims_of(connection, answered)
        if newcomers:
            flushed.recheck += self._pending_rooms(connection, set(newcomers.values()))

        def remember_states() -> None:
            for state in taken.states:
                self._cache.put(state)

        return flushed, [remember_states, remember_workers, remember_pairs, remember_wants]

    @staticmethod
    def _pending_rooms(connection: Connection, servers: set[tuple[str, str]]) -> list[RoomRef]:
        found: list[RoomRef] = []
        for deployment, server in sorted(servers):
            query = (
                select(rooms.c.room)
                .where(
                    rooms.c.verdict == Verdict.pending.value,
                    rooms.c.deployment == deployment,
                    (rooms.c.prefill_server == server) | (rooms.c.decode_server == server),
                )
                .order_by(rooms.c.first_seen.desc())
                .limit(MAX_RECHECKED)
            )
            found += [(deployment, room) for room in connection.execute(query).scalars()]
        return found
