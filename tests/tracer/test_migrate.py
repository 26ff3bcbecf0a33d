"""The schema: the migrations make what the code expects, on both databases, and can be run again."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest
from alembic.autogenerate import compare_metadata
from alembic.runtime.migration import MigrationContext
from sqlalchemy import inspect

from tracer.store import migrate
from tracer.store.database import Database, open_database, parse_url
from tracer.store.schema import metadata


def test_migrations_make_the_schema(database: Database) -> None:
    with database.read.connect() as connection:
        assert compare_metadata(MigrationContext.configure(connection), metadata) == []


def test_partial_indexes_are_there(database: Database) -> None:
    found = {index["name"] for index in inspect(database.read).get_indexes("rooms")}
    assert found == {index.name for index in metadata.tables["rooms"].indexes}


def test_versions(database_url: str) -> None:
    opened = open_database(database_url)
    assert migrate.current(opened) is None
    assert migrate.upgrade(opened) == (None, migrate.head())
    assert migrate.upgrade(opened) == (migrate.head(), migrate.head())
    assert migrate.current(opened) == migrate.head()
    opened.dispose()


def test_from_several_processes_at_once(database_url: str) -> None:
    with ThreadPoolExecutor(4) as pool:
        versions = list(pool.map(lambda _: migrate.upgrade_url(database_url), range(4)))
    assert sorted(before or "" for before, _ in versions) == ["", *[migrate.head()] * 3]


@pytest.mark.parametrize(
    ("given", "driver"),
    [
        ("sqlite:///x.db", "sqlite"),
        ("postgresql://u:p@h/d", "postgresql+psycopg"),
        ("postgresql+psycopg://u:p@h/d", "postgresql+psycopg"),
        ("postgres://u:p@h/d", "postgresql+psycopg"),
    ],
)
def test_urls(given: str, driver: str) -> None:
    assert parse_url(given).drivername == driver


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ("mysql://h/d", "use sqlite:///FILE or postgresql"),
        ("sqlite://", "give a file"),
        ("sqlite:///:memory:", "give a file"),
    ],
)
def test_urls_that_cannot_be_used(given: str, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        parse_url(given)


def test_sqlite_is_durable(sqlite_url: str) -> None:
    opened = open_database(sqlite_url)
    with opened.write.connect() as connection:
        pragmas = {
            name: connection.exec_driver_sql(f"PRAGMA {name}").scalar()
            for name in ("journal_mode", "synchronous", "wal_autocheckpoint")
        }
    assert pragmas == {"journal_mode": "wal", "synchronous": 2, "wal_autocheckpoint": 20000}
    opened.dispose()
