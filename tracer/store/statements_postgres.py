"""The hot statements on PostgreSQL: arrays in, COPY for what is only appended."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlalchemy import Table

from tracer.store.codec import RoomRef
from tracer.store.schema import records, rooms
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
from tracer.store.text_array import TextArray, teach

# One statement whose rows are locked in one order: that is what keeps replicas from deadlocking.
_LOCK = """
WITH locked AS (
INSERT INTO room_keys (deployment, room, transfer_key, day, version)
SELECT k.deployment, k.room, k.transfer_key, %s, 1
FROM unnest(%s, %s, %s) AS k (deployment, room, transfer_key)
ORDER BY k.deployment COLLATE "C", k.room COLLATE "C", k.transfer_key COLLATE "C"
ON CONFLICT (deployment, room, transfer_key)
DO UPDATE SET version = room_keys.version + 1 WHERE room_keys.transfer_key = ''
RETURNING deployment, room, transfer_key, day, version
) SELECT deployment, room, day, version FROM locked WHERE transfer_key = ''
"""
_JOIN = """
FROM unnest(%s::int[], %s::text[], %s::text[]) AS wanted (day, deployment, room)
JOIN {table} AS t USING (day, deployment, room)
"""
_LOAD_RECORDS = (
    f"SELECT {', '.join(f't.{name}' for name in RECORD_COLUMNS)} {_JOIN.format(table='records')}"
    "ORDER BY t.received, t.worker, t.boot, t.seq"
)
_LOAD_ROOMS = f"SELECT {', '.join(f't.{name}' for name in ROOM_COLUMNS)} {_JOIN.format(table='rooms')}"
_HOLDINGS = f"""
INSERT INTO holdings ({", ".join(HOLDING_COLUMNS)})
SELECT * FROM unnest(
    %s::text[], %s::text[], %s::text[], %s::bigint[], %s::int[], %s::text[], %s::float8[], %s::bytea[]
) ON CONFLICT DO NOTHING
"""  # noqa: S608
_APPEND = f"COPY records ({', '.join(RECORD_COLUMNS)}) FROM STDIN (FORMAT BINARY)"
_TYPES = {"INTEGER": "int4", "SMALLINT": "int2", "BIGINT": "int8", "FLOAT": "float8", "TEXT": "text"}

_STAGING = "CREATE TEMPORARY TABLE IF NOT EXISTS rooms_in (LIKE rooms) ON COMMIT DELETE ROWS"
_INSERT_ROOMS = f"COPY rooms ({', '.join(ROOM_COLUMNS)}) FROM STDIN (FORMAT BINARY)"
_COPY_ROOMS = f"COPY rooms_in ({', '.join(ROOM_COLUMNS)}) FROM STDIN (FORMAT BINARY)"
_WRITE_ROOMS = (
    f"INSERT INTO rooms ({', '.join(ROOM_COLUMNS)}) SELECT {', '.join(ROOM_COLUMNS)} FROM rooms_in "  # noqa: S608
    f'ORDER BY deployment COLLATE "C", room COLLATE "C" {upsert_tail(rooms, ROOM_KEY)}'
)


def _types(table: Table) -> list[str]:
    return [_TYPES.get(str(column.type), "bytea") for column in table.columns]


_RECORD_TYPES, _ROOM_TYPES = _types(records), _types(rooms)


class PostgresStatements:
    """See :class:`tracer.store.statements.Statements`."""

    def lock_rooms(self, cursor: Any, keys: Sequence[KeyRow], day: int) -> dict[RoomRef, tuple[int, int]]:
        """One merged, sorted upsert."""
        deployments, names, transfer_keys = zip(*keys, strict=True)
        teach(cursor)
        cursor.execute(_LOCK, (day, TextArray(deployments), TextArray(names), TextArray(transfer_keys)))
        return {
            (deployment, room): (first_day, version)
            for deployment, room, first_day, version in cursor.fetchall()
        }

    def append_records(self, cursor: Any, rows: Sequence[Row]) -> None:
        """COPY straight into the table: the rooms are locked, so no row can have come in between."""
        self._copy(cursor, _APPEND, _RECORD_TYPES, rows)

    def append_holdings(self, cursor: Any, rows: Sequence[Row]) -> None:
        """One statement: some may be there, so they cannot be copied in."""
        cursor.execute(_HOLDINGS, [list(column) for column in zip(*rows, strict=True)])

    def load_records(self, cursor: Any, refs: Sequence[DayRoom]) -> list[Row]:
        """All records of some rooms, oldest first."""
        return list(cursor.execute(_LOAD_RECORDS, _arrays(refs)).fetchall())

    def load_rooms(self, cursor: Any, refs: Sequence[DayRoom]) -> list[Row]:
        """The rows of some rooms, where there are any."""
        return list(cursor.execute(_LOAD_ROOMS, _arrays(refs)).fetchall())

    def insert_rooms(self, cursor: Any, rows: Sequence[Row]) -> None:
        """COPY straight into the table, for half of what an upsert costs."""
        self._copy(cursor, _INSERT_ROOMS, _ROOM_TYPES, rows)

    def write_rooms(self, cursor: Any, rows: Sequence[Row]) -> None:
        """COPY into a temporary table, then one sorted upsert."""
        cursor.execute(_STAGING)
        self._copy(cursor, _COPY_ROOMS, _ROOM_TYPES, rows)
        cursor.execute(_WRITE_ROOMS)

    @staticmethod
    def _copy(cursor: Any, statement: str, types: Sequence[str], rows: Sequence[Row]) -> None:
        with cursor.copy(statement) as copy:
            copy.set_types(types)
            for row in rows:
                copy.write_row(row)


def _arrays(refs: Sequence[DayRoom]) -> tuple[list[int], list[str], list[str]]:
    days, deployments, names = zip(*refs, strict=True)
    return list(days), list(deployments), list(names)
