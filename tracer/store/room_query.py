"""One room: its verdict and the records behind it."""

from __future__ import annotations

from dataclasses import dataclass

from sqlalchemy import Connection, select

from pd_tracer_hooks.wire import Detail, Event, Observation
from tracer.store.codec import decode_record
from tracer.store.rooms_query import RoomRow, room_row
from tracer.store.schema import records, rooms, workers

#: Records of one room that are shown. A room has tens of them, or hundreds at many ranks and chunks.
MAX_RECORDS = 5000


@dataclass(frozen=True)
class RoomRecord:
    """One record of a room: who said it, when it came (the collector's clock), and what it says."""

    side: str
    #: An observation's stage, ``event:<kind>``, or ``detail:<stage>``.
    stage: str
    look: int
    worker: str
    boot: str
    server: str
    received: float
    record: Observation | Event | Detail


@dataclass(frozen=True)
class Reporter:
    """A worker that reported on a room."""

    worker: str
    side: str
    server: str
    #: Empty where the worker did not say.
    node: str


@dataclass(frozen=True)
class Timeline:
    """The records of a room in the order in which they came."""

    records: list[RoomRecord]
    reporters: list[Reporter]
    #: Whether there are more than :data:`MAX_RECORDS`.
    truncated: bool


def find_rooms(connection: Connection, room: str, deployment: str | None = None) -> list[RoomRow]:
    """The rooms of that name: one for each deployment that has it, by deployment."""
    query = select(rooms).where(rooms.c.room == room).order_by(rooms.c.deployment, rooms.c.day)
    if deployment is not None:
        query = query.where(rooms.c.deployment == deployment)
    # A room whose day was forgotten can have come again on another: the newest counts.
    newest = {row.deployment: row for row in connection.execute(query)}
    return [room_row(row) for row in newest.values()]


def read_timeline(connection: Connection, room: RoomRow, limit: int = MAX_RECORDS) -> Timeline:
    """What was reported of ``room``, in the order of arrival, then of each worker's own count."""
    columns = records.c
    query = (
        select(
            columns.side,
            columns.stage,
            columns.look,
            columns.worker,
            columns.boot,
            columns.server,
            columns.received,
            columns.body,
        )
        .where(columns.day == room.day, columns.deployment == room.deployment, columns.room == room.room)
        .order_by(columns.received, columns.side.desc(), columns.worker, columns.seq)
        .limit(limit + 1)
    )
    rows = connection.execute(query).all()
    found = [RoomRecord(*row[:-1], decode_record(row.stage, row.body)) for row in rows[:limit]]
    who = {(record.worker, record.side, record.server) for record in found}
    nodes = _nodes(connection, room.deployment, {name for name, _, _ in who})
    reporters = [
        Reporter(name, side, server, nodes.get(name, ""))
        for name, side, server in sorted(who, key=lambda item: (item[1] != "prefill", item))
    ]
    return Timeline(found, reporters, truncated=len(rows) > limit)


def _nodes(connection: Connection, deployment: str, names: set[str]) -> dict[str, str]:
    query = select(workers.c.worker, workers.c.node).where(
        workers.c.deployment == deployment, workers.c.worker.in_(sorted(names))
    )
    return {row.worker: row.node for row in connection.execute(query)}
