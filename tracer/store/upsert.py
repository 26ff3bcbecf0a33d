"""INSERT ... ON CONFLICT for both databases, for what runs once a flush."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import Connection, Table
from sqlalchemy.dialects import postgresql, sqlite

Values = Mapping[str, Any]


def _insert(connection: Connection, table: Table) -> Any:
    dialect = sqlite if connection.dialect.name == "sqlite" else postgresql
    return dialect.insert(table)


def _sorted(table: Table, rows: Sequence[Values]) -> list[Values]:
    """By primary key: everybody locks rows in one order."""
    key = [column.name for column in table.primary_key.columns]
    return sorted(rows, key=lambda row: tuple(row[name] for name in key))


def insert_missing(connection: Connection, table: Table, rows: Sequence[Values]) -> None:
    """Insert the rows whose primary key is not there yet."""
    if rows:
        connection.execute(_insert(connection, table).on_conflict_do_nothing(), _sorted(table, rows))


def upsert(connection: Connection, table: Table, rows: Sequence[Values], overwrite: Sequence[str]) -> None:
    """Insert rows; where the primary key is there, overwrite the named columns."""
    if not rows:
        return
    statement = _insert(connection, table)
    statement = statement.on_conflict_do_update(
        index_elements=list(table.primary_key.columns),
        set_={name: statement.excluded[name] for name in overwrite},
    )
    connection.execute(statement, _sorted(table, rows))


def add_to(connection: Connection, table: Table, rows: Sequence[Values], column: str) -> None:
    """Insert rows; where the primary key is there, add to ``column``."""
    if not rows:
        return
    statement = _insert(connection, table)
    statement = statement.on_conflict_do_update(
        index_elements=list(table.primary_key.columns),
        set_={column: table.columns[column] + statement.excluded[column]},
    )
    connection.execute(statement, _sorted(table, rows))
