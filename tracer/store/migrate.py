"""The schema's versions, by Alembic: bring a database up to date, or say how far behind it is."""

from __future__ import annotations

from pathlib import Path

from alembic import command
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, text

from tracer.store.database import Database, open_database

#: Replicas that start together take turns: this PostgreSQL advisory lock says whose turn it is.
_LOCK = 0x70645F74  # "pd_t"


def migrations_path() -> Path:
    """Where the migrations are: inside the installed package, or beside it in a checkout.

    Raises ``FileNotFoundError`` when there are none, which means a broken installation.
    """
    package = Path(__file__).resolve().parents[1]
    for path in (package / "_migrations", package.parent / "migrations"):
        if (path / "env.py").is_file():
            return path
    raise FileNotFoundError(f"no migrations in {package}: install pd-tracer again")


def _config(connection: Connection | None = None) -> Config:
    config = Config()
    config.set_main_option("script_location", str(migrations_path()).replace("%", "%%"))
    config.attributes["connection"] = connection
    return config


def head() -> str:
    """The newest schema version, which this release needs."""
    revision = ScriptDirectory.from_config(_config()).get_current_head()
    assert revision is not None
    return revision


def current(database: Database) -> str | None:
    """The version that the database has, or None for an empty one.

    Raises ``sqlalchemy.exc.SQLAlchemyError`` when it is away.
    """
    with database.read.connect() as connection:
        return MigrationContext.configure(connection).get_current_revision()


def upgrade(database: Database) -> tuple[str | None, str]:
    """Bring the schema to :func:`head`, in one transaction. Returns the versions before and after.

    Safe to run twice, and from several processes at once. Raises ``sqlalchemy.exc.SQLAlchemyError``
    when the database is away or refuses, and ``alembic.util.CommandError`` for a schema newer than
    this release.
    """
    with database.write.begin() as connection:
        if not database.is_sqlite:
            connection.execute(text("SELECT pg_advisory_xact_lock(:lock)"), {"lock": _LOCK})
        before = MigrationContext.configure(connection).get_current_revision()
        command.upgrade(_config(connection), "head")
        after = MigrationContext.configure(connection).get_current_revision()
    assert after is not None
    return before, after


def upgrade_url(database_url: str) -> tuple[str | None, str]:
    """:func:`upgrade` for a database that nobody has opened yet."""
    database = open_database(database_url)
    try:
        return upgrade(database)
    finally:
        database.dispose()
