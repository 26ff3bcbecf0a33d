"""Rooms of the same pair just before and after one: was it alone, or in bad company?"""

from __future__ import annotations

from typing import Any

from sqlalchemy import ColumnElement, Connection, Select, and_, literal, or_, select, tuple_

from tracer.store.rooms_query import RoomRow, room_row
from tracer.store.schema import rooms

#: Neighbours on either side.
NEIGHBOURS = 3
#: Rooms of all pairs that are looked through on either side. In a fleet a pair's own lie far apart.
MAX_SEARCHED = 2000


def read_neighbours(connection: Connection, room: RoomRow, count: int = NEIGHBOURS) -> list[RoomRow]:
    """Up to ``count`` rooms on either side of ``room`` by their latest report, on the same pair of servers.

    The oldest comes first. None where a server of the pair is not known; one that lies further away than
    :data:`MAX_SEARCHED` rooms of the collector is not found.
    """
    if not room.prefill_server or not room.decode_server:
        return []
    keys = [
        (row.day, row.deployment, row.room)
        for after in (False, True)
        for row in connection.execute(neighbours_statement(room, after=after, count=count))
    ]
    if not keys:
        return []
    # One by one, since SQLite finds a row by its key only if the key stands alone.
    own = or_(*(_is(*key) for key in keys))
    found = [room_row(row) for row in connection.execute(select(rooms).where(own))]
    return sorted(found, key=lambda row: (row.last_seen, row.deployment, row.room))


def neighbours_statement(room: RoomRow, *, after: bool, count: int) -> Select[Any]:
    """The SELECT of the keys of the neighbours on one side, the nearest first."""
    order = (rooms.c.last_seen, rooms.c.deployment, rooms.c.room)
    columns = tuple_(*order)
    here = tuple_(literal(room.last_seen), literal(room.deployment), literal(room.room))
    near = (
        select(rooms.c.day, *order, rooms.c.prefill_server, rooms.c.decode_server)
        .where(columns > here if after else columns < here)
        .order_by(*(column.asc() if after else column.desc() for column in order))
        .limit(MAX_SEARCHED)
        .subquery()
    )
    theirs = (near.c.last_seen, near.c.deployment, near.c.room)
    return (
        select(near.c.day, near.c.deployment, near.c.room)
        .where(
            near.c.deployment == room.deployment,
            near.c.prefill_server == room.prefill_server,
            near.c.decode_server == room.decode_server,
        )
        .order_by(*(column.asc() if after else column.desc() for column in theirs))
        .limit(count)
    )


def _is(day: int, deployment: str, room: str) -> ColumnElement[bool]:
    return and_(rooms.c.day == day, rooms.c.deployment == deployment, rooms.c.room == room)
