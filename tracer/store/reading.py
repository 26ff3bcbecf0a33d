"""How the read side asks the database: one snapshot, a limit on the time, and errors with a name."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from sqlalchemy import Connection, text
from sqlalchemy.exc import DBAPIError

from tracer.store.database import Database

#: Seconds that one look may take. A list whose filter matches almost nothing would read every room.
DEFAULT_LIMIT_S = 10.0
#: SQLite's virtual machine looks at the clock after this many steps (about every millisecond).
_SQLITE_STEPS = 20_000
#: PostgreSQL's SQLSTATE for a statement that ran out of its time.
_QUERY_CANCELED = "57014"


class TooSlowError(Exception):
    """A query ran longer than it may."""

    def __init__(self, limit_s: float) -> None:
        super().__init__(f"the query took longer than {limit_s:g} s")
        self.limit_s = limit_s


@contextmanager
def reading(database: Database, limit_s: float = DEFAULT_LIMIT_S) -> Iterator[Connection]:
    """A connection that sees one state of the database throughout.

    Raises :class:`TooSlowError` when a statement takes longer than ``limit_s``, and
    ``sqlalchemy.exc.SQLAlchemyError`` when the database is away.
    """
    with database.read.connect() as connection:
        if database.is_sqlite:
            with connection.begin(), _sqlite_limit(connection, limit_s):
                yield connection
            return
        connection.execution_options(isolation_level="REPEATABLE READ", postgresql_readonly=True)
        with connection.begin():
            connection.execute(text(f"SET LOCAL statement_timeout = {int(limit_s * 1000)}"))
            try:
                yield connection
            except DBAPIError as error:
                if getattr(error.orig, "sqlstate", None) == _QUERY_CANCELED:
                    raise TooSlowError(limit_s) from error
                raise


@contextmanager
def _sqlite_limit(connection: Connection, limit_s: float) -> Iterator[None]:
    driver: Any = connection.connection.driver_connection
    until = time.monotonic() + limit_s

    def over() -> bool:
        return time.monotonic() > until

    driver.set_progress_handler(over, _SQLITE_STEPS)
    try:
        yield
    except DBAPIError as error:
        if over():
            raise TooSlowError(limit_s) from error
        raise
    finally:
        driver.set_progress_handler(None, 0)
