"""The hot statements on SQLite: many rows go in with one INSERT, and many keys as one JSON parameter."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from typing import Any

import msgspec

from tracer.store.codec import RoomRef
from tracer.store.schema import rooms
from tracer.store.statements import (
    HOLDING_COLUMNS,
    RECORD_COLUMNS,
    ROOM_COLUMNS,
    ROOM_KEY,
    DayRoom,
    KeyRow,
    Row,
    upsert_tail,
)

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


#: Rows in one INSERT. sqlite3 gives the interpreter's lock back only while a statement runs, and must then
#: wait for it again: row by row, a transaction stood still whenever another thread was decoding reports.
_ROWS_AT_ONCE = 125


class _Insert:
    """An INSERT of any number of rows, most of them many at once."""

    def __init__(self, table: str, columns: Sequence[str], tail: str = "") -> None:
        head = f"INSERT INTO {table} ({', '.join(columns)}) VALUES"
        row = f"({', '.join('?' * len(columns))})"
        self._one = f"{head} {row} {tail}"
        self._many = f"{head} {', '.join([row] * _ROWS_AT_ONCE)} {tail}"

    def execute(self, cursor: Any, rows: Sequence[Row]) -> None:
        """Insert ``rows``, which have the columns in order."""
        whole = len(rows) - len(rows) % _ROWS_AT_ONCE
        for start in range(0, whole, _ROWS_AT_ONCE):
            cursor.execute(self._many, list(chain.from_iterable(rows[start : start + _ROWS_AT_ONCE])))
        cursor.executemany(self._one, rows[whole:])

    def returning(self, cursor: Any, rows: Sequence[Row]) -> list[Row]:
        """Insert ``rows``, and give what the statement returns."""
        returned: list[Row] = []
        whole = len(rows) - len(rows) % _ROWS_AT_ONCE
        for start in range(0, whole, _ROWS_AT_ONCE):
            cursor.execute(self._many, list(chain.from_iterable(rows[start : start + _ROWS_AT_ONCE])))
            returned += cursor.fetchall()
        for row in rows[whole:]:
            cursor.execute(self._one, row)
            returned += cursor.fetchall()
        return returned


_KEY_COLUMNS = ("deployment", "room", "transfer_key", "day", "version")
_KEYS = _Insert("room_keys", _KEY_COLUMNS, "ON CONFLICT DO NOTHING")
_LOCK = _Insert(
    "room_keys",
    _KEY_COLUMNS,
    "ON CONFLICT (deployment, room, transfer_key) DO UPDATE SET version = version + 1"
    " RETURNING deployment, room, day, version",
)
_APPEND = _Insert("records", RECORD_COLUMNS)
_HOLDINGS = _Insert("holdings", HOLDING_COLUMNS, "ON CONFLICT DO NOTHING")
_INSERT_ROOMS = _Insert("rooms", ROOM_COLUMNS)
_WRITE_ROOMS = _Insert("rooms", ROOM_COLUMNS, upsert_tail(rooms, ROOM_KEY))

_json = msgspec.json.Encoder()


def _as_json(rows: Sequence[Any]) -> str:
    return _json.encode(rows).decode()


class SqliteStatements:
    """See :class:`tracer.store.statements.Statements`."""

    def lock_rooms(self, cursor: Any, keys: Sequence[KeyRow], day: int) -> dict[RoomRef, tuple[int, int]]:
        """Lock by writing: the transaction already holds the database's only write lock."""
        if "\0" in "".join(chain.from_iterable(keys)):
            raise ValueError("a key holds the character NUL: PostgreSQL could not keep it, nor do we")
        _KEYS.execute(cursor, [(*key, day, 1) for key in keys if key[2]])
        found = _LOCK.returning(cursor, [(*key, day, 1) for key in keys if not key[2]])
        return {(deployment, room): (first_day, version) for deployment, room, first_day, version in found}

    def append_records(self, cursor: Any, rows: Sequence[Row]) -> None:
        """Insert many at once."""
        _APPEND.execute(cursor, rows)

    def append_holdings(self, cursor: Any, rows: Sequence[Row]) -> None:
        """Insert many at once."""
        _HOLDINGS.execute(cursor, rows)

    def load_records(self, cursor: Any, refs: Sequence[DayRoom]) -> list[Row]:
        """All records of some rooms, oldest first."""
        return list(cursor.execute(_LOAD_RECORDS, (_as_json(refs),)).fetchall())

    def load_rooms(self, cursor: Any, refs: Sequence[DayRoom]) -> list[Row]:
        """The rows of some rooms, where there are any."""
        return list(cursor.execute(_LOAD_ROOMS, (_as_json(refs),)).fetchall())

    def insert_rooms(self, cursor: Any, rows: Sequence[Row]) -> None:
        """Insert many at once."""
        _INSERT_ROOMS.execute(cursor, rows)

    def write_rooms(self, cursor: Any, rows: Sequence[Row]) -> None:
        """Insert or overwrite many at once."""
        _WRITE_ROOMS.execute(cursor, rows)
