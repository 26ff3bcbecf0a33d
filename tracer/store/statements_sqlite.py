"""The hot statements on SQLite. Many rows go in as one JSON parameter where an answer is needed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from tracer.store.codec import RoomRef
from tracer.store.schema import rooms
from tracer.store.statements import (
    RECORD_COLUMNS,
    ROOM_COLUMNS,
    ROOM_KEY,
    DayRoom,
    KeyRow,
    Row,
    upsert_tail,
)

_LOCK = """
INSERT INTO room_keys (deployment, room, transfer_key, day, version)
SELECT json_extract(value, '$[0]'), json_extract(value, '$[1]'), json_extract(value, '$[2]'), ?, 1
FROM json_each(?) WHERE true
ON CONFLICT (deployment, room, transfer_key)
DO UPDATE SET version = version + 1 WHERE transfer_key = ''
RETURNING deployment, room, transfer_key, day, version
"""
# CROSS JOIN keeps SQLite from turning the join around.
_WHERE = """
FROM json_each(?) AS wanted CROSS JOIN {table} AS t
ON t.day = json_extract(wanted.value, '$[0]') AND t.deployment = json_extract(wanted.value, '$[1]')
AND t.room = json_extract(wanted.value, '$[2]')
"""
_LOAD_RECORDS = (
    f"SELECT {', '.join(f't.{name}' for name in RECORD_COLUMNS)} {_WHERE.format(table='records')}"
    "ORDER BY t.received, t.worker, t.boot, t.seq"
)
_LOAD_ROOMS = f"SELECT {', '.join(f't.{name}' for name in ROOM_COLUMNS)} {_WHERE.format(table='rooms')}"


def _insert(table: str, columns: Sequence[str]) -> str:
    marks = ", ".join("?" * len(columns))
    return f"INSERT INTO {table} ({', '.join(columns)}) VALUES ({marks})"  # noqa: S608


_APPEND = _insert("records", RECORD_COLUMNS)
_WRITE_ROOMS = f"{_insert('rooms', ROOM_COLUMNS)} {upsert_tail(rooms, ROOM_KEY)}"

_json = msgspec.json.Encoder()


def _as_json(rows: Sequence[Any]) -> str:
    return _json.encode(rows).decode()


class SqliteStatements:
    """See :class:`tracer.store.statements.Statements`."""

    def lock_rooms(self, cursor: Any, keys: Sequence[KeyRow], day: int) -> dict[RoomRef, tuple[int, int]]:
        """Lock by writing: the transaction already holds the database's only write lock."""
        cursor.execute(_LOCK, (day, _as_json(keys)))
        return {
            (deployment, room): (first_day, version)
            for deployment, room, key, first_day, version in cursor.fetchall()
            if not key
        }

    def append_records(self, cursor: Any, rows: Sequence[Row]) -> None:
        """Insert one by one with one prepared statement."""
        cursor.executemany(_APPEND, rows)

    def load_records(self, cursor: Any, refs: Sequence[DayRoom]) -> list[Row]:
        """All records of some rooms, oldest first."""
        return list(cursor.execute(_LOAD_RECORDS, (_as_json(refs),)).fetchall())

    def load_rooms(self, cursor: Any, refs: Sequence[DayRoom]) -> list[Row]:
        """The rows of some rooms, where there are any."""
        return list(cursor.execute(_LOAD_ROOMS, (_as_json(refs),)).fetchall())

    def write_rooms(self, cursor: Any, rows: Sequence[Row]) -> None:
        """Insert or overwrite one by one with one prepared statement."""
        cursor.executemany(_WRITE_ROOMS, rows)
