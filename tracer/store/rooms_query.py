"""Lists of rooms: filters, order, and the page after a cursor."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import (
    ColumnElement,
    Connection,
    Float,
    Row,
    Select,
    and_,
    exists,
    literal,
    literal_column,
    or_,
    select,
    tuple_,
)

from tracer.join.model import Cause, RoomVerdict, Verdict
from tracer.store.codec import decode_verdict
from tracer.store.cursor import Cursor
from tracer.store.schema import records, rooms, workers

MAX_LIMIT = 1000
_SEEN_SLACK_S = 5.0
_UNREMARKABLE = frozenset({Verdict.match, Verdict.pending})


@dataclass(frozen=True, kw_only=True)
class RoomFilter:
    """Which rooms to list. Everything that is given must hold; ``verdicts`` holds if one of them does."""

    #: Request id of either side.
    request: str | None = None
    trace: str | None = None
    deployment: str | None = None
    verdicts: Sequence[Verdict] = ()
    cause: Cause | None = None
    #: A component that has the room's verdict.
    component: str | None = None
    #: A worker that reported on the room.
    worker: str | None = None
    #: A node on which such a worker runs.
    node: str | None = None
    #: A server on either side of the pair.
    server: str | None = None
    prefill: str | None = None
    decode: str | None = None
    #: Labels that the room's run must have.
    run: Sequence[str] = ()
    #: The latest report came at or after ``since`` and before ``until`` (the collector's clock).
    since: float | None = None
    until: float | None = None


@dataclass(frozen=True)
class RoomRow:
    """One room as the list and the look-up have it: the row, its body decoded."""

    day: int
    deployment: str
    room: str
    verdict: str
    cause: str
    coverage: str
    #: Components that have the room's verdict.
    worst_components: tuple[str, ...]
    first_seen: float
    last_seen: float
    settled_at: float | None
    deadline: float | None
    prefill_server: str
    decode_server: str
    request_prefill: str
    request_decode: str
    trace: str
    run: str
    attempts: int
    revisions: int
    said: RoomVerdict


@dataclass(frozen=True)
class RoomPage:
    """Part of a list, and where the next part begins (None: there is no more)."""

    rooms: list[RoomRow]
    next: Cursor | None


def list_rooms(
    connection: Connection, wanted: RoomFilter, *, limit: int = 100, after: Cursor | None = None
) -> RoomPage:
    """The rooms that ``wanted`` lets through, by their latest report, newest first.

    A room that gets another report moves to the front. Rooms that come or move while somebody pages
    never make a page repeat or skip a room that stayed as it was.
    """
    reported = []
    for column, value in ((workers.c.worker, wanted.worker), (workers.c.node, wanted.node)):
        if value is None:
            continue
        found = _find_reporters(connection, column == value, wanted.deployment)
        if found is None:
            return RoomPage([], None)
        reported.append(found)
    rows = connection.execute(rooms_statement(wanted, reported, limit=limit + 1, after=after)).all()
    listed = [room_row(row) for row in rows[:limit]]
    if len(rows) <= limit:
        return RoomPage(listed, None)
    last = listed[-1]
    return RoomPage(listed, Cursor(last.last_seen, last.deployment, last.room))


@dataclass(frozen=True)
class Reporters:
    """Workers of which one must have reported on a room: (deployment, worker), and when they did."""

    names: Sequence[tuple[str, str]]
    since: float
    until: float


def _find_reporters(
    connection: Connection, condition: ColumnElement[bool], deployment: str | None
) -> Reporters | None:
    """Those of the known workers that fulfil ``condition``, or None if there is none."""
    columns = workers.c
    query = select(columns.deployment, columns.worker, columns.first_seen, columns.last_seen).where(condition)
    if deployment is not None:
        query = query.where(columns.deployment == deployment)
    rows = connection.execute(query).all()
    if not rows:
        return None
    return Reporters(
        sorted((row.deployment, row.worker) for row in rows),
        min(row.first_seen for row in rows),
        # What a worker said last is written a little later than said.
        max(row.last_seen for row in rows) + _SEEN_SLACK_S,
    )


def rooms_statement(
    wanted: RoomFilter,
    reported: Sequence[Reporters] = (),
    *,
    limit: int,
    after: Cursor | None = None,
) -> Select[Any]:
    """The SELECT behind :func:`list_rooms`."""
    newest: ColumnElement[float] = rooms.c.last_seen
    if set(wanted.verdicts) == {Verdict.pending}:
        # The few pending rooms are found by their index and sorted. In the order of another index, all
        # rooms would be searched for the rest of a page; an expression has none.
        newest = literal_column("+rooms.last_seen", Float)
    order = (newest, rooms.c.deployment, rooms.c.room)
    query = select(rooms).where(*_conditions(wanted), *(_reported(by) for by in reported))
    if after is not None:
        query = query.where(
            tuple_(*order) < tuple_(literal(after.last_seen), literal(after.deployment), literal(after.room))
        )
    return query.order_by(*(column.desc() for column in order)).limit(limit)


def room_row(row: Row[Any]) -> RoomRow:
    """A row of ``rooms``, decoded. Raises ``msgspec.DecodeError`` for a body that is no verdict."""
    values = dict(row._mapping)
    said = decode_verdict(values.pop("body"))
    worst = tuple(name for name in values.pop("worst_components").split(",") if name)
    return RoomRow(**values, worst_components=worst, said=said)


def _conditions(wanted: RoomFilter) -> list[ColumnElement[bool]]:
    equal = {
        rooms.c.deployment: wanted.deployment,
        rooms.c.cause: wanted.cause.value if wanted.cause else None,
        rooms.c.prefill_server: wanted.prefill,
        rooms.c.decode_server: wanted.decode,
    }
    conditions: list[ColumnElement[bool]] = [
        column == value for column, value in equal.items() if value is not None
    ]
    conditions += _verdicts(wanted)
    if wanted.trace is not None:
        conditions += [rooms.c.trace == wanted.trace, literal_column("trace <> ''")]
    if wanted.request is not None:
        conditions.append(_request(wanted.request))
    if wanted.component is not None:
        conditions.append(rooms.c.worst_components.contains(f",{wanted.component},", autoescape=True))
    if wanted.server is not None:
        conditions.append(
            or_(rooms.c.prefill_server == wanted.server, rooms.c.decode_server == wanted.server)
        )
    labels = literal(",").concat(rooms.c.run).concat(",")
    conditions += [labels.contains(f",{label},", autoescape=True) for label in wanted.run]
    if wanted.since is not None:
        conditions.append(rooms.c.last_seen >= wanted.since)
    if wanted.until is not None:
        conditions.append(rooms.c.last_seen < wanted.until)
    return conditions


def _verdicts(wanted: RoomFilter) -> list[ColumnElement[bool]]:
    """The condition on verdicts, with the words of the partial indices so that they are found."""
    chosen = sorted({verdict.value for verdict in wanted.verdicts})
    conditions: list[ColumnElement[bool]] = []
    if chosen:
        conditions.append(rooms.c.verdict.in_(chosen))
    if wanted.cause is not None or (chosen and not _UNREMARKABLE.intersection(wanted.verdicts)):
        conditions.append(literal_column("verdict NOT IN ('match', 'pending')"))
    if chosen == [Verdict.pending.value]:
        conditions.append(literal_column("verdict = 'pending'"))
    return conditions


def _request(request: str) -> ColumnElement[bool]:
    """Either side's request id; each half has the words of its partial index."""
    return or_(
        and_(rooms.c.request_prefill == request, literal_column("request_prefill <> ''")),
        and_(rooms.c.request_decode == request, literal_column("request_decode <> ''")),
    )


def _reported(by: Reporters) -> ColumnElement[bool]:
    """Whether one of those workers has a record of the room."""
    return and_(
        rooms.c.last_seen >= by.since,
        rooms.c.first_seen <= by.until,
        exists().where(
            records.c.day == rooms.c.day,
            records.c.deployment == rooms.c.deployment,
            records.c.room == rooms.c.room,
            tuple_(records.c.deployment, records.c.worker).in_(by.names),
        ),
    )
