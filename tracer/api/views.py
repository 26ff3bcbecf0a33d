"""From what the store has to what the API shows. Pure functions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from pd_tracer_hooks.wire import Detail, Event, Observation, Side
from tracer.api.models import room as one
from tracer.api.models import rooms as many
from tracer.api.models import summary as sums
from tracer.api.models import workers as who
from tracer.explain import explain
from tracer.pagemap import PageMap, page_maps
from tracer.store.room_query import RoomRecord, Timeline
from tracer.store.rooms_query import RoomRow
from tracer.store.summary_query import Pending, Tally, Window
from tracer.store.workers_query import WorkerRow

_SHARED = (
    "room",
    "deployment",
    "verdict",
    "prefill_server",
    "decode_server",
    "request_prefill",
    "request_decode",
    "trace",
    "run",
    "first_seen",
    "last_seen",
    "settled_at",
    "revisions",
)


def _shared(row: RoomRow) -> dict[str, Any]:
    """The fields that a room has in a list and by itself."""
    return {
        **{name: getattr(row, name) for name in _SHARED},
        "cause": row.cause or None,
        "coverage": row.coverage or None,
        "summary": explain(row.room, row.said, prefill=row.prefill_server, decode=row.decode_server),
        "settled": row.said.settled,
    }


def room_summary(row: RoomRow) -> many.RoomSummary:
    """A room as a list shows it."""
    return many.RoomSummary(**_shared(row), components=list(row.worst_components), attempts=row.attempts)


def room_detail(row: RoomRow, timeline: Timeline, neighbours: Sequence[RoomRow] = ()) -> one.Room:
    """A room by itself, with those that were seen just before and after."""
    said = msgspec.to_builtins(row.said)
    return one.Room(
        **_shared(row),
        reason=row.said.reason,
        deadline=row.deadline,
        exonerated=row.said.exonerated,
        not_covered=row.said.not_covered,
        components=said.get("components", []),
        attempts=said.get("attempts", []),
        workers=[one.Reporter(**_fields(reporter)) for reporter in timeline.reporters],
        join_delay_s=row.said.join_delay_s,
        map=[room_map(found) for found in page_maps(row.said, _k_of(timeline))],
        neighbours=[_neighbour(near, row) for near in neighbours],
        timeline=[_entry(record) for record in timeline.records],
        timeline_truncated=timeline.truncated,
    )


def room_map(found: PageMap) -> one.PageMap:
    """A map as the API shows it."""
    rows = [one.MapRow(layers=row.layers, runs=row.runs) for row in found.rows]
    return one.PageMap(**{**_fields(found), "rows": rows})


def _k_of(timeline: Timeline) -> dict[str, int]:
    """Pages in the head and in the tail, by component."""
    return {
        part.name: part.k
        for stored in timeline.records
        if isinstance(stored.record, Observation)
        for part in stored.record.components
    }


def _neighbour(near: RoomRow, room: RoomRow) -> one.Neighbour:
    shared = _shared(near)
    return one.Neighbour(
        **{name: shared[name] for name in ("room", "verdict", "cause", "summary", "last_seen")},
        offset_s=near.last_seen - room.last_seen,
    )


def _fields(value: Any) -> dict[str, Any]:
    return {name: getattr(value, name) for name in value.__dataclass_fields__}


def _entry(stored: RoomRecord) -> one.TimelineEntry:
    record = stored.record
    said: dict[str, Any] = {"kind": "event"}
    if isinstance(record, Observation):
        said = {"kind": "observation", "tokens": record.tokens, "components": _components(record)}
    elif isinstance(record, Event):
        said |= {"reason": record.reason, "component": record.component}
    elif isinstance(record, Detail):
        said = {"kind": "detail", "reason": record.reason, "component": record.component}
        said["detail"] = one.TimelineDetail(
            layers=record.layers, runs=record.runs, digests=len(record.digests) // 8, gone=record.gone
        )
    return one.TimelineEntry(
        **said,
        # Stored with a prefix that says the kind: event:opened, detail:receive.
        stage=stored.stage.rpartition(":")[2],
        side=Side(stored.side),
        worker=stored.worker,
        server=stored.server,
        boot=stored.boot,
        look=stored.look,
        received=stored.received,
        seq=record.seq,
        at=record.at,
        keys=record.keys,
        request=getattr(record, "request", ""),
        peer=getattr(record, "peer", ""),
    )


def _components(record: Observation) -> list[one.TimelineComponent]:
    return [
        one.TimelineComponent(
            name=part.name,
            pages=part.pages,
            coverage=part.coverage,
            layers=part.layers,
            runs=part.runs,
            last=part.last,
            owned=part.owned,
            signature=part.signature,
            sums=part.sums.hex_list(),
            cells=part.cells,
        )
        for part in record.components
    ]


def summary(
    window: Window, pending: dict[str, Pending], *, window_s: float, deployment: str | None
) -> sums.Summary:
    """What was settled in ``window``, in all, by component and by pair; and what is pending."""
    oldest = [waiting.oldest for waiting in pending.values() if waiting.oldest is not None]
    return sums.Summary(
        window_s=window_s,
        since=window.since,
        until=window.until,
        deployment=deployment,
        rooms=sums.Tally(**_tally(window.tally(rooms=True))),
        components=_by_component(window),
        pairs=_by_pair(window),
        pending=sums.PendingRooms(
            rooms=sum(waiting.rooms for waiting in pending.values()),
            oldest_age_s=max(0.0, window.until - min(oldest)) if oldest else None,
        ),
    )


def _by_component(window: Window) -> list[sums.ComponentTally]:
    names = sorted({series.component for series, _ in window.counts if series.component})
    tallies = [(name, window.tally(rooms=False, component=name)) for name in names]
    return [sums.ComponentTally(component=name, **_tally(tally)) for name, tally in tallies if tally.counts]


def _by_pair(window: Window) -> list[sums.PairTally]:
    pairs: dict[tuple[str, str, str], sums.PairTally] = {}
    tallies = window.tallies()
    for key in sorted({series[:3] for series in tallies}):
        mine = {series.component: tally for series, tally in tallies.items() if series[:3] == key}
        if not any(tally.counts for tally in mine.values()):
            continue
        components = [
            sums.ComponentTally(component=name, **_tally(tally))
            for name, tally in mine.items()
            if name and tally.counts
        ]
        deployment, prefill, decode = key
        pairs[key] = sums.PairTally(
            deployment=deployment,
            prefill=prefill,
            decode=decode,
            rooms=sums.Tally(**_tally(mine.get("", Tally({})))),
            components=components,
        )
    return list(pairs.values())


def _tally(tally: Tally) -> dict[str, Any]:
    return {
        "counts": tally.counts,
        "compared": tally.compared,
        "match_ratio": tally.match_ratio,
        "mismatch_ratio": tally.mismatch_ratio,
    }


def worker(row: WorkerRow, now: float, unlike: Sequence[str] = ()) -> who.Worker:
    """A worker; ``now`` tells the age of its last report, ``unlike`` in what it differs from the others."""
    identity = msgspec.to_builtins(row.identity)
    manifest = None
    if row.manifest is not None:
        manifest = [
            who.HeldComponent(
                name=part.name,
                moved=part.moved,
                layers=len(part.layers),
                memory=part.memory,
                signature=part.signature,
            )
            for part in row.manifest.components
        ]
    return who.Worker(
        worker=identity.pop("id"),
        rank=identity.pop("rank", 0),
        **identity,
        first_seen=row.first_seen,
        last_seen=row.last_seen,
        age_s=max(0.0, now - row.last_seen),
        heartbeat=_heartbeat(row),
        drops=row.drops,
        manifest=manifest,
        setup=_setup(row),
        unlike=list(unlike),
    )


def _setup(row: WorkerRow) -> who.Setup | None:
    setup = row.manifest.setup if row.manifest is not None else None
    if setup is None:
        return None
    return who.Setup(
        attached=setup.attached,
        missing=setup.missing,
        changed=setup.changed,
        notes=setup.notes,
        config=setup.config,
    )


def _heartbeat(row: WorkerRow) -> who.Heartbeat | None:
    beat = row.heartbeat
    if beat is None:
        return None
    return who.Heartbeat(state=beat.state, uptime_s=beat.uptime_s, queued=beat.queued, faults=beat.faults)
