"""The second half of a flush: judge the rooms that were touched, and say what is to be written."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

import msgspec
import structlog
from sqlalchemy import Connection

from tracer.join.model import Policy, RoomVerdict, Verdict
from tracer.join.room import judge
from tracer.store.codec import encode_verdict
from tracer.store.manifests import Boot, ManifestBook
from tracer.store.names import Names
from tracer.store.rollups import PairKey
from tracer.store.settle import (
    NOTHING,
    Change,
    Count,
    change,
    counts_of,
    coverage_of,
    latest_attempt,
    pair_of,
    worst_components,
)
from tracer.store.state import RoomState
from tracer.store.statements import Row
from tracer.store.tally import Series, Tally

log = structlog.get_logger(__name__)

#: A deadline that has passed and still stands is looked at again after this long.
_AGAIN_S = 1.0
#: A room that could not be judged is tried again after this long.
_AGAIN_AFTER_FAULT_S = 60.0


@dataclass(slots=True)
class Judged:
    """What the verdicts of a flush have to be written."""

    rows: list[Row] = field(default_factory=list)
    deltas: Counter[tuple[str, Count]] = field(default_factory=Counter)
    pairs: set[PairKey] = field(default_factory=set)


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
    ) -> Judged:
        """Judge rooms. Of ``rechecked`` only those whose verdict changes are written."""
        judged = Judged()
        both = [*touched, *(state for state in rechecked if state.entries)]
        if not both:
            return judged
        self._manifests.load(
            connection, {Boot(state.ref[0], *boot) for state in both for boot in state.workers}
        )
        verdicts = [self._judge(state, now, tally) for state in both]
        self._names.look_up(
            connection,
            (
                (state.ref[0], server)
                for state, verdict in zip(both, verdicts, strict=True)
                for attempt in verdict.attempts
                for server in (attempt.prefill_server, attempt.decode_server)
                if server not in state.servers
            ),
        )
        for index, (state, found) in enumerate(zip(both, verdicts, strict=True)):
            verdict = self._names.resolve_all(state.ref[0], found, state.servers)
            if index >= len(touched) and verdict == state.verdict and not _overdue(verdict, now):
                continue
            self._settle(state, verdict, now, judged, tally)
        # One order of locks for everybody.
        judged.rows.sort(key=lambda row: row[1:3])
        return judged

    def _judge(self, state: RoomState, now: float, tally: Tally) -> RoomVerdict:
        deployment, room = state.ref
        try:
            return judge(list(state.entries.values()), self._manifests.of(deployment), self._policy, now)
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
        self, state: RoomState, verdict: RoomVerdict, now: float, judged: Judged, tally: Tally
    ) -> None:
        before = state.verdict
        if latest_attempt(before) != latest_attempt(verdict):
            state.settled_at = None
        changed = change(before, verdict, counted=state.settled_at is not None)
        state.revisions += sum(not revision.component for revision in changed.revisions)
        if state.settled_at is None and counts_of(verdict):
            state.settled_at = now
        state.verdict = verdict
        deployment = state.ref[0]
        if changed is not NOTHING:
            for count, amount in changed.deltas.items():
                judged.deltas[deployment, count] += amount
            _count(deployment, verdict, changed, tally)
        judged.pairs.update(self._pairs(state, verdict))
        judged.rows.append(_row(state, verdict, now))

    def _pairs(self, state: RoomState, verdict: RoomVerdict) -> list[PairKey]:
        """The pair's rows, once both servers are known: an alias that nobody resolved is no server yet."""
        deployment = state.ref[0]
        pair = pair_of(verdict)
        for server in pair:
            if not server:
                return []
            if server not in state.servers and not self._names.known(deployment, server):
                return []
        components = ("", *(part.component for part in verdict.components))
        return [(deployment, *pair, component) for component in components]


def _overdue(verdict: RoomVerdict, now: float) -> bool:
    return verdict.deadline is not None and verdict.deadline <= now


def _count(deployment: str, verdict: RoomVerdict, changed: Change, tally: Tally) -> None:
    """Add what settled, and what was revised into a mismatch: an alert must see that too."""
    risen = list(changed.first)
    for revision in changed.revisions:
        if not revision.component:
            tally.revisions[revision.before.value, revision.after.value] += 1
        if revision.after is Verdict.mismatch:
            risen.append(Count(revision.pair, revision.component, revision.after))
    for count in risen:
        if count.component:
            tally.components[Series(deployment, count.pair, (count.component, count.verdict.value))] += 1
            continue
        tally.rooms[Series(deployment, count.pair, (count.verdict.value,))] += 1
        if count.verdict is Verdict.mismatch and verdict.cause is not None:
            tally.causes[Series(deployment, count.pair, (verdict.cause.value,))] += 1
    if any(not count.component for count in changed.first):
        coverage = coverage_of(verdict)
        if verdict.verdict is Verdict.match and coverage is not None:
            tally.coverages[Series(deployment, pair_of(verdict), (coverage.value,))] += 1
        if verdict.join_delay_s is not None:
            tally.join_delays.append(verdict.join_delay_s)


def _row(state: RoomState, verdict: RoomVerdict, now: float) -> Row:
    """In the order of the columns of ``rooms``."""
    latest = verdict.attempts[-1] if verdict.attempts else None
    coverage = coverage_of(verdict)
    return (
        state.day,
        *state.ref,
        verdict.verdict.value,
        verdict.cause.value if verdict.cause is not None else "",
        coverage.value if coverage is not None else "",
        worst_components(verdict),
        state.first_seen,
        state.last_seen,
        state.settled_at,
        now + _AGAIN_S if _overdue(verdict, now) else verdict.deadline,
        latest.prefill_server if latest is not None else "",
        latest.decode_server if latest is not None else "",
        latest.request_prefill if latest is not None else "",
        latest.request_decode if latest is not None else "",
        verdict.trace,
        state.run,
        len(verdict.attempts),
        state.revisions,
        encode_verdict(verdict),
    )
