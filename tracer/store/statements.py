"""The hot statements of a flush, as each database does them best.

They go to the driver's cursor directly: compiling and dispatching each through SQLAlchemy would cost
more than the statement. Everything that runs once a flush, rather than once a row, is Core elsewhere.
Rows are tuples in the order of the table's columns.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from sqlalchemy import Table

from tracer.store.codec import RoomRef
from tracer.store.schema import holdings, records, rooms

Row = tuple[Any, ...]
#: Deployment, room, transfer key (empty: the room itself).
KeyRow = tuple[str, str, str]
#: Day, deployment, room.
DayRoom = tuple[int, str, str]

RECORD_COLUMNS = tuple(column.name for column in records.columns)
ROOM_COLUMNS = tuple(column.name for column in rooms.columns)
HOLDING_COLUMNS = tuple(column.name for column in holdings.columns)
ROOM_KEY = ("day", "deployment", "room")


class Statements(Protocol):
    """What a flush asks of a database. Each method is one round trip or a few, for any number of rows."""

    def lock_rooms(self, cursor: Any, keys: Sequence[KeyRow], day: int) -> dict[RoomRef, tuple[int, int]]:
        """Insert the sorted ``keys`` that are new, with ``day``; raise the version of the rooms among them.

        Returns (day, version) for each room. Until the transaction ends nobody else can write them.
        """

    def append_records(self, cursor: Any, rows: Sequence[Row]) -> None:
        """Insert records, none of which is there. Raises the driver's IntegrityError if one is."""

    def append_holdings(self, cursor: Any, rows: Sequence[Row]) -> None:
        """Insert the sorted rows of ``holdings`` that are not there yet."""

    def load_records(self, cursor: Any, refs: Sequence[DayRoom]) -> list[Row]:
        """All records of some rooms, oldest first."""

    def load_rooms(self, cursor: Any, refs: Sequence[DayRoom]) -> list[Row]:
        """The rows of some rooms, where there are any."""

    def insert_rooms(self, cursor: Any, rows: Sequence[Row]) -> None:
        """Insert rooms, none of which is there. Raises the driver's IntegrityError if one is."""

    def write_rooms(self, cursor: Any, rows: Sequence[Row]) -> None:
        """Insert or overwrite rooms, sorted by deployment and room."""


def upsert_tail(table: Table, key: Sequence[str]) -> str:
    """``ON CONFLICT (key) DO UPDATE SET`` every other column."""
    names = [column.name for column in table.columns if column.name not in key]
    sets = ", ".join(f"{name} = excluded.{name}" for name in names)
    return f"ON CONFLICT ({', '.join(key)}) DO UPDATE SET {sets}"
