"""The second half of a flush: judge the rooms that were touched, and say what is to be written."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

import msgspec
import structlog
from sqlalchemy import Connection

from tracer.explain import pair_text
from tracer.join.model import Attempt, Policy, RoomVerdict, Verdict
from tracer.join.room import judge
from tracer.store.codec import encode_verdict
from tracer.store.counting import FirstCounts, count_change, room_counted
from tracer.store.donors import Search
from tracer.store.manifests import Boot, ManifestBook
from tracer.store.names import Names, peers_of
from tracer.store.rollups import PairKey
from tracer.store.settle import (
    NOTHING,
    Count,
    Facts,
    change,
    facts_of,
    latest_attempt,
    pair_of,
)
from tracer.store.state import RoomState
from tracer.store.statements import Row
from tracer.store.tally import Tally
from tracer.store.wants import Mismatched

log = structlog.get_logger(__name__)

#: A deadline that has passed and still stands is looked at again after this long.
_AGAIN_S = 1.0
#: A room that could not be judged is tried again after this long.
_AGAIN_AFTER_FAULT_S = 60.0


_NO_ATTEMPT = Attempt(number=0, verdict=Verdict.pending)


@dataclass(slots=True)
class Judged:
    """What the verdicts of a flush have to be written."""

    #: Rows of rooms that nobody knew before this flush, and of others.
    new_rows: list[Row] = field(default_factory=list)
    rows: list[Row] = field(default_factory=list)
    deltas: Counter[tuple[str, Count]] = field(default_factory=Counter)
    pairs: set[PairKey] = field(default_factory=set)
    #: Rooms that were no mismatch before.
    mismatched: list[Mismatched] = field(default_factory=list)
    #: Rooms counted for the first time.
    first: FirstCounts = field(default_factory=FirstCounts)


class Judging:
    """Asks the join about rooms, and turns what it says into rows and counts."""

    def __init__(self, policy: Policy, names: Names, manifests: ManifestBook) -> None:
        self._policy = policy
        self._names = names
        self._manifests = manifests

    def judge_all(
        self,
        connection: Connection,
        touched: Sequence[RoomState],
        rechecked: Sequence[RoomState],
        now: float,
        tally: Tally,
        *,
        search: Search | None = None,
    ) -> Judged:
        """Judge rooms. Of ``rechecked`` only those whose verdict changes are written."""
        judged = Judged()
        both = [*touched, *(state for state in rechecked if state.entries)]
        if not both:
            return judged
        self._manifests.load(
            connection,
            {
                Boot(deployment, *boot)
                for deployment, workers in {(state.ref[0], state.workers) for state in both}
                for boot in workers
            },
        )
        verdicts = [self._judge(state, now, tally, search) for state in both]
        self._names.look_up(
            connection,
            (
                (state.ref[0], server)
                for state, verdict in zip(both, verdicts, strict=True)
                for server in peers_of(verdict, state.servers)
            ),
        )
        for index, (state, found) in enumerate(zip(both, verdicts, strict=True)):
            verdict = self._names.resolve_all(state.ref[0], found, state.servers)
            if index >= len(touched) and verdict == state.verdict and not _overdue(verdict, now):
                continue
            self._settle(state, verdict, now, judged, tally)
        judged.first.add_to(judged.deltas, tally)
        # One order of locks for everybody.
        for rows in (judged.new_rows, judged.rows):
            rows.sort(key=lambda row: row[1:3])
        return judged

    def _judge(self, state: RoomState, now: float, tally: Tally, search: Search | None) -> RoomVerdict:
        deployment, room = state.ref
        try:
            entries, manifests = list(state.entries.values()), self._manifests.of(deployment)
            said = judge(entries, manifests, self._policy, now)
            donors = search.of(state, said) if search is not None else {}
            return judge(entries, manifests, self._policy, now, donors) if donors else said
        except Exception as error:
            # The records are evidence and are kept; the room is tried again, and its neighbours go on.
            log.exception("room could not be judged", deployment=deployment, room=room)
            tally.join_faults += 1
            again = now + _AGAIN_AFTER_FAULT_S
            if state.verdict is not None:
                return msgspec.structs.replace(state.verdict, deadline=again)
            return RoomVerdict(
                verdict=Verdict.pending,
                reason=f"could not be judged ({type(error).__name__}); the collector's log says more",
                settled=False,
                deadline=again,
            )

    def _settle(
        self,
        state: RoomState,
        verdict: RoomVerdict,
        now: float,
        judged: Judged,
        tally: Tally,
    ) -> None:
        before, deployment, facts = state.verdict, state.ref[0], facts_of(verdict)
        if latest_attempt(before) != latest_attempt(verdict):
            state.settled_at = None
        if state.settled_at is None and (before is None or before.verdict is Verdict.pending):
            if facts.counts:
                judged.first.add(deployment, verdict, facts)
                if verdict.join_delay_s is not None:
                    tally.join_delays.append(verdict.join_delay_s)
        else:
            changed = change(before, verdict, counted=state.settled_at is not None)
            state.revisions += sum(not revision.component for revision in changed.revisions)
            if changed is not NOTHING:
                for count, amount in changed.deltas.items():
                    judged.deltas[deployment, count] += amount
                count_change(deployment, verdict, changed, tally)
                if room_counted(changed) and verdict.join_delay_s is not None:
                    tally.join_delays.append(verdict.join_delay_s)
        if state.settled_at is None and facts.counts:
            state.settled_at = now
        if verdict.verdict is Verdict.mismatch and (before is None or before.verdict is not Verdict.mismatch):
            judged.mismatched.append(_mismatched(state, verdict))
        state.verdict = verdict
        self._know_pairs(state, verdict, facts, judged.pairs)
        # The first to lock a room is the first to write it: its row cannot be there.
        rows = judged.new_rows if state.version == 1 else judged.rows
        rows.append(_row(state, verdict, facts, now))

    def _know_pairs(self, state: RoomState, verdict: RoomVerdict, facts: Facts, pairs: set[PairKey]) -> None:
        """Add the pair's rows once both servers are known: an alias that nobody resolved is none yet."""
        deployment = state.ref[0]
        pair = pair_of(verdict)
        for server in pair:
            if not server:
                return
            if server not in state.servers and not self._names.known(deployment, server):
                return
        for component in facts.components:
            pairs.add((deployment, pair.prefill, pair.decode, component))


def _mismatched(state: RoomState, verdict: RoomVerdict) -> Mismatched:
    """Who may know more of a mismatch: everybody who took part in the latest attempt."""
    latest = verdict.attempts[-1] if verdict.attempts else _NO_ATTEMPT
    workers = {
        worker
        for transfer in latest.transfers
        for worker in (*transfer.prefill_workers, *transfer.decode_workers)
    }
    pair = pair_text(latest.prefill_server, latest.decode_server)
    return Mismatched(*state.ref, pair, frozenset(workers))


def _overdue(verdict: RoomVerdict, now: float) -> bool:
    return verdict.deadline is not None and verdict.deadline <= now


def _row(state: RoomState, verdict: RoomVerdict, facts: Facts, now: float) -> Row:
    """In the order of the columns of ``rooms``."""
    latest = verdict.attempts[-1] if verdict.attempts else _NO_ATTEMPT
    return (
        state.day,
        *state.ref,
        facts.verdict,
        verdict.cause.value if verdict.cause is not None else "",
        facts.coverage,
        facts.worst,
        state.first_seen,
        state.last_seen,
        state.settled_at,
        now + _AGAIN_S if _overdue(verdict, now) else verdict.deadline,
        latest.prefill_server,
        latest.decode_server,
        latest.request_prefill,
        latest.request_decode,
        verdict.trace,
        state.run,
        len(verdict.attempts),
        state.revisions,
        encode_verdict(verdict),
    )
