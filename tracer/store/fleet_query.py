"""Rooms of a window and how they stand: the input of the fleet's exoneration."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from sqlalchemy import Connection, select, tuple_

from tracer.fleet import Standing, standing
from tracer.join.model import Verdict
from tracer.store.codec import decode_verdict
from tracer.store.rooms_query import RoomRow, room_row
from tracer.store.schema import rooms

#: Most rooms that are read, the newest first: beyond it the answer says that it is a sample.
MAX_ROOMS = 20_000
#: Rooms that are in memory at once.
_AT_ONCE = 1000
#: The verdicts whose bodies say more: for others the verdict is all that counts.
_COMPARED = frozenset({Verdict.match.value, Verdict.mismatch.value})


@dataclass(frozen=True)
class Fleet:
    """How the rooms of a window stand."""

    standings: Counter[Standing]
    #: Verdicts of the rooms that were not compared.
    not_compared: Counter[str]
    #: Causes of the mismatches that are explained.
    causes: Counter[str]
    #: The newest of the rooms left unexplained, newest first.
    unexplained: list[RoomRow]
    #: Whether older rooms of the window were left out.
    sampled: bool


def read_fleet(
    connection: Connection,
    *,
    since: float,
    deployment: str | None = None,
    show: int = 20,
    limit: int = MAX_ROOMS,
) -> Fleet:
    """How the rooms stand whose latest report came at or after ``since`` (the collector's clock).

    Rooms that are pending do not count. ``show``: most rooms left unexplained that are listed.
    """
    query = (
        select(rooms.c.day, rooms.c.deployment, rooms.c.room, rooms.c.verdict, rooms.c.cause, rooms.c.body)
        .where(rooms.c.last_seen >= since, rooms.c.verdict != Verdict.pending.value)
        .order_by(rooms.c.last_seen.desc(), rooms.c.deployment.desc(), rooms.c.room.desc())
        .limit(limit + 1)
    )
    if deployment is not None:
        query = query.where(rooms.c.deployment == deployment)
    sampled = False
    standings: Counter[Standing] = Counter()
    not_compared: Counter[str] = Counter()
    causes: Counter[str] = Counter()
    unexplained: list[tuple[int, str, str]] = []
    # The bodies of all rooms at once would take a hundred megabytes.
    with connection.execute(query.execution_options(yield_per=_AT_ONCE)) as rows:
        for number, row in enumerate(rows, 1):
            if number > limit:
                sampled = True
                break
            if row.verdict not in _COMPARED:
                standings[Standing.not_compared] += 1
                not_compared[row.verdict] += 1
                continue
            stands = standing(decode_verdict(row.body))
            standings[stands] += 1
            if stands is Standing.explained:
                causes[row.cause] += 1
            elif stands is Standing.unexplained:
                unexplained.append((row.day, row.deployment, row.room))
    return Fleet(standings, not_compared, causes, _read(connection, unexplained[:show]), sampled)


def _read(connection: Connection, keys: list[tuple[int, str, str]]) -> list[RoomRow]:
    if not keys:
        return []
    own = tuple_(rooms.c.day, rooms.c.deployment, rooms.c.room).in_(keys)
    found = {
        (row.day, row.deployment, row.room): room_row(row)
        for row in connection.execute(select(rooms).where(own))
    }
    return [found[key] for key in keys if key in found]
