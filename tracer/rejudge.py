"""Verdicts on reports at hand, without a collector: the same join, over everything at once.

``sent_at`` of a report stands for its arrival. It is the sender's clock, so what would compare two hosts is
left out (the join delay), and the order in which rooms are listed is only as good as these clocks. Nothing
more is waited for: every deadline has passed.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import msgspec

from pd_tracer_hooks.wire import Detail, Event, Manifest, Observation, Report, Worker
from tracer.join.model import AnyEntry, Attempt, Entry, Policy, RoomVerdict, Verdict, WorkerRef
from tracer.join.room import judge
from tracer.join.worst import severity
from tracer.store.codec import stage_of
from tracer.store.names import renamed
from tracer.store.neighbours_query import NEIGHBOURS
from tracer.store.room_query import Reporter, RoomRecord, Timeline
from tracer.store.rooms_query import RoomRow
from tracer.store.settle import coverage_of, worst_components

_DAY_S = 86_400
_NOBODY = Attempt(number=0, verdict=Verdict.pending)
#: Verdicts that are nobody's fault, or say nothing about a transfer.
_UNREMARKABLE = frozenset(
    {
        Verdict.match,
        Verdict.nothing_transferred,
        Verdict.sampled_out,
        Verdict.dropped,
        Verdict.aborted,
        Verdict.pending,
    }
)

#: Deployment and room.
RoomRef = tuple[str, str]


@dataclass(frozen=True)
class JudgedRoom:
    """A room as the store would have it."""

    row: RoomRow
    timeline: Timeline


@dataclass
class _Room:
    run: str = ""
    records: dict[tuple[str, str, int, str], RoomRecord] = field(default_factory=dict)
    entries: list[AnyEntry] = field(default_factory=list)


@dataclass
class _Deployment:
    manifests: dict[tuple[str, str], Manifest] = field(default_factory=dict)
    #: What peers call a server.
    servers: dict[str, str] = field(default_factory=dict)
    nodes: dict[str, str] = field(default_factory=dict)
    rooms: dict[str, _Room] = field(default_factory=dict)


def judge_reports(reports: Iterable[Report], policy: Policy | None = None) -> list[JudgedRoom]:
    """Judge every room of ``reports``, which may come from several workers and in any order.

    Findings come first, the worst of them before the others; rooms alike by their latest report.
    """
    known: dict[str, _Deployment] = {}
    for report in reports:
        _take(report, known.setdefault(report.worker.deployment, _Deployment()))
    judged = [
        _judge((name, room), found, deployment, policy or Policy())
        for name, deployment in known.items()
        for room, found in deployment.rooms.items()
    ]
    return sorted(judged, key=_order)


def is_finding(said: RoomVerdict) -> bool:
    """Whether a verdict says that something is wrong with a transfer, or that a side of it is not here."""
    return said.verdict not in _UNREMARKABLE


def neighbours_of(room: RoomRow, rows: Iterable[RoomRow], count: int = NEIGHBOURS) -> list[RoomRow]:
    """Up to ``count`` of ``rows`` before and after ``room`` on its pair of servers, the oldest first."""
    if not room.prefill_server or not room.decode_server:
        return []
    pair = _pair(room)
    mine = sorted((row for row in rows if _pair(row) == pair), key=lambda row: (row.last_seen, row.room))
    place = next((index for index, row in enumerate(mine) if row.room == room.room), 0)
    return [*mine[max(0, place - count) : place], *mine[place + 1 : place + 1 + count]]


def _pair(row: RoomRow) -> tuple[str, str, str]:
    return row.deployment, row.prefill_server, row.decode_server


def _order(room: JudgedRoom) -> tuple[bool, int, float, str, str]:
    row = room.row
    worst = severity(row.said.verdict)
    return not is_finding(row.said), worst, -row.last_seen, row.deployment, row.room


def _take(report: Report, deployment: _Deployment) -> None:
    worker = report.worker
    for alias in (*worker.aliases, worker.server):
        # A server is known by its own name too, whatever other servers call themselves.
        if alias == worker.server or deployment.servers.get(alias) != alias:
            deployment.servers[alias] = worker.server
    deployment.nodes[worker.id] = worker.node
    for manifest in report.manifests:
        kept = deployment.manifests.get((worker.id, worker.boot))
        if kept is None or manifest.seq > kept.seq:
            deployment.manifests[worker.id, worker.boot] = manifest
    ref = WorkerRef(worker.id, worker.boot, worker.side, worker.server)
    records: list[Observation | Event | Detail] = [*report.observations, *report.events, *report.details]
    for record in records:
        room = deployment.rooms.setdefault(record.room, _Room())
        _add(room, record, ref, worker, report.sent_at or record.at)


def _add(
    room: _Room, record: Observation | Event | Detail, ref: WorkerRef, worker: Worker, received: float
) -> None:
    stage = stage_of(record)
    identity = (worker.id, worker.boot, record.seq, stage)
    if identity in room.records:
        return
    look = 0 if isinstance(record, Event) else record.look
    room.records[identity] = RoomRecord(
        worker.side.value, stage, look, worker.id, worker.boot, worker.server, received, record
    )
    room.entries.append(Entry(ref, received, record))
    room.run = room.run or worker.run


def _judge(ref: RoomRef, room: _Room, deployment: _Deployment, policy: Policy) -> JudgedRoom:
    said = judge(room.entries, deployment.manifests, policy, math.inf)
    spoke = {entry.worker.server for entry in room.entries}
    said = renamed(said, spoke, lambda name: deployment.servers.get(name, name))
    said = msgspec.structs.replace(said, join_delay_s=None, deadline=None)
    records = sorted(
        room.records.values(), key=lambda r: (r.received, r.side != "decode", r.worker, r.record.seq)
    )
    return JudgedRoom(_row(ref, said, room.run, records), _timeline(records, deployment))


def _timeline(records: list[RoomRecord], deployment: _Deployment) -> Timeline:
    who = {(record.worker, record.side, record.server) for record in records}
    reporters = [
        Reporter(name, side, server, deployment.nodes.get(name, ""))
        for name, side, server in sorted(who, key=lambda item: (item[1] != "prefill", item))
    ]
    return Timeline(records, reporters, truncated=False)


def _row(ref: RoomRef, said: RoomVerdict, run: str, records: Sequence[RoomRecord]) -> RoomRow:
    latest = said.attempts[-1] if said.attempts else _NOBODY
    coverage = coverage_of(said)
    last_seen = max(record.received for record in records)
    return RoomRow(
        day=int(last_seen // _DAY_S),
        deployment=ref[0],
        room=ref[1],
        verdict=said.verdict.value,
        cause=said.cause.value if said.cause is not None else "",
        coverage=coverage.value if coverage is not None else "",
        worst_components=tuple(name for name in worst_components(said).split(",") if name),
        first_seen=min(record.received for record in records),
        last_seen=last_seen,
        settled_at=last_seen if said.verdict is not Verdict.pending else None,
        deadline=None,
        prefill_server=latest.prefill_server,
        decode_server=latest.decode_server,
        request_prefill=latest.request_prefill,
        request_decode=latest.request_decode,
        trace=said.trace,
        run=run,
        attempts=len(said.attempts),
        revisions=0,
        said=said,
    )
