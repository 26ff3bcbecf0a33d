"""What a failed transaction means: try again, wait for the database, or blame the batch."""

from __future__ import annotations

import sqlite3
from enum import Enum

import psycopg
from sqlalchemy.exc import DBAPIError


class Unavailable(Exception):  # noqa: N818 - said of the service, as HTTP does
    """Nothing was committed; the same batch may be sent again after ``retry_after`` seconds."""

    def __init__(self, reason: str, retry_after: float = 1.0) -> None:
        super().__init__(reason)
        self.retry_after = retry_after


class Refused(Exception):  # noqa: N818 - said of the batch, as the wire does
    """The database takes everything but this batch. Sending it again does not help."""


class Failure(Enum):
    """What is to be done about it."""

    #: Another transaction was in the way: a deadlock, a lock held too long.
    retry = "retry"
    #: The database cannot be reached, cannot write, or has no schema.
    away = "away"
    #: Something in the data.
    data = "data"


_RETRY = (
    psycopg.errors.DeadlockDetected,
    psycopg.errors.SerializationFailure,
    psycopg.errors.LockNotAvailable,
)
_NO_SCHEMA = (psycopg.errors.UndefinedTable, psycopg.errors.UndefinedColumn)
_AWAY = (
    psycopg.OperationalError,
    psycopg.InterfaceError,
    *_NO_SCHEMA,
    psycopg.errors.InsufficientPrivilege,
    psycopg.errors.ReadOnlySqlTransaction,
    sqlite3.OperationalError,
    sqlite3.InterfaceError,
    sqlite3.ProgrammingError,
    OSError,
)


def driver_error(error: BaseException) -> BaseException:
    """The driver's own exception, where SQLAlchemy has wrapped it."""
    return error.orig if isinstance(error, DBAPIError) and error.orig is not None else error


def away_reason(error: BaseException) -> str:
    """What to tell people of a database that is away, with the way out where there is one."""
    cause = driver_error(error)
    if isinstance(cause, _NO_SCHEMA) or (
        isinstance(cause, sqlite3.OperationalError) and str(cause).startswith("no such ")
    ):
        return "the database lacks the schema of this release: run `pd-tracer migrate`"
    return "the database is away"


def classify(error: BaseException) -> Failure:
    """Say what kind of failure an exception from a transaction is."""
    cause = driver_error(error)
    if isinstance(cause, _RETRY):
        return Failure.retry
    if isinstance(cause, sqlite3.OperationalError) and "locked" in str(cause):
        return Failure.retry
    # "file is not a database", "malformed": not the batch's fault.
    if type(cause) is sqlite3.DatabaseError or isinstance(cause, _AWAY):
        return Failure.away
    return Failure.data
