"""Engines: one connection that writes, a pool that reads, on SQLite or PostgreSQL."""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, Engine, create_engine, event, text
from sqlalchemy.engine import URL, make_url
from sqlalchemy.pool import NullPool, QueuePool

#: Pages of the write-ahead log before SQLite copies them into the database file (default 1000). Copying
#: less often gave 1.4 to 1.8 times the rate.
WAL_AUTOCHECKPOINT = 20_000
BUSY_TIMEOUT_MS = 5_000
#: INSERT ... RETURNING came with this release.
OLDEST_SQLITE = (3, 35, 0)
CONNECT_TIMEOUT_S = 5
#: PostgreSQL: how long the writer waits for a row that another collector is writing, and for a statement.
LOCK_TIMEOUT_MS, STATEMENT_TIMEOUT_MS = 5_000, 30_000


def parse_url(database_url: str) -> URL:
    """The URL with its driver filled in: psycopg 3 for PostgreSQL.

    Raises ``ValueError`` for a database that is neither SQLite nor PostgreSQL, and for SQLite in memory,
    which its reading connections could not see.
    """
    url = make_url(database_url)
    backend = url.drivername.split("+")[0]
    if backend in ("postgresql", "postgres"):
        return url.set(drivername="postgresql+psycopg")
    if backend != "sqlite":
        raise ValueError(f"database {backend!r}: use sqlite:///FILE or postgresql://...")
    if not url.database or url.database == ":memory:" or "mode=memory" in url.database:
        raise ValueError("SQLite in memory keeps nothing: give a file, as in sqlite:///pd-tracer.db")
    if sqlite3.sqlite_version_info < OLDEST_SQLITE:
        oldest = ".".join(map(str, OLDEST_SQLITE))
        raise ValueError(f"SQLite {sqlite3.sqlite_version} is too old: {oldest} or newer is needed")
    return url.set(drivername="sqlite")


@dataclass(frozen=True)
class Database:
    """The engines of one database. ``write`` is for the one writer, ``read`` for everybody else."""

    url: URL
    write: Engine
    read: Engine

    @property
    def is_sqlite(self) -> bool:
        """Whether this is SQLite (else PostgreSQL)."""
        return self.url.get_backend_name() == "sqlite"

    def connect_writer(self) -> Connection:
        """A connection for the writer, on which nothing waits for ever.

        Raises ``sqlalchemy.exc.SQLAlchemyError`` when the database is away.
        """
        connection = self.write.connect()
        if not self.is_sqlite:
            with connection.begin():
                connection.execute(text(f"SET lock_timeout = {LOCK_TIMEOUT_MS}"))
                connection.execute(text(f"SET statement_timeout = {STATEMENT_TIMEOUT_MS}"))
        return connection

    def dispose(self) -> None:
        """Close every connection that is not in use."""
        self.write.dispose()
        self.read.dispose()


def open_database(database_url: str, *, readers: int = 8) -> Database:
    """Make the engines. Nothing is connected yet. Raises ``ValueError`` as :func:`parse_url`."""
    url = parse_url(database_url)
    if url.get_backend_name() == "sqlite":
        write = create_engine(url, poolclass=NullPool, connect_args={"check_same_thread": False})
        _sqlite_events(write, begin="BEGIN IMMEDIATE", pragmas=_WRITER_PRAGMAS)
        read = create_engine(
            url, poolclass=QueuePool, pool_size=readers, connect_args={"check_same_thread": False}
        )
        _sqlite_events(read, begin="BEGIN", pragmas=_READER_PRAGMAS)
        return Database(url, write, read)
    connect = {"connect_timeout": CONNECT_TIMEOUT_S, "application_name": "pd-tracer"}
    write = create_engine(url, poolclass=NullPool, connect_args=connect)
    read = create_engine(url, pool_size=readers, pool_pre_ping=True, connect_args=connect)
    return Database(url, write, read)


_WRITER_PRAGMAS = (
    "PRAGMA journal_mode = WAL",
    # NORMAL would lose acknowledged reports at a power cut; with grouped commits FULL costs nothing.
    "PRAGMA synchronous = FULL",
    f"PRAGMA wal_autocheckpoint = {WAL_AUTOCHECKPOINT}",
    f"PRAGMA busy_timeout = {BUSY_TIMEOUT_MS}",
    "PRAGMA cache_size = -65536",
    "PRAGMA temp_store = MEMORY",
)
_READER_PRAGMAS = (f"PRAGMA busy_timeout = {BUSY_TIMEOUT_MS}", "PRAGMA query_only = ON")


def _sqlite_events(engine: Engine, *, begin: str, pragmas: tuple[str, ...]) -> None:
    """Take transaction control from sqlite3, which would begin too late to lock first."""

    @event.listens_for(engine, "connect")
    def on_connect(connection: Any, _record: Any) -> None:
        connection.isolation_level = None
        cursor = connection.cursor()
        for pragma in pragmas:
            cursor.execute(pragma)
        cursor.close()

    @event.listens_for(engine, "begin")
    def on_begin(connection: Any) -> None:
        connection.exec_driver_sql(begin)
