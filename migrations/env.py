"""How Alembic reaches the database: by the connection that tracer.store.migrate hands over."""

from __future__ import annotations

from alembic import context
from sqlalchemy import Connection

from tracer.store.schema import metadata


def _migrate(connection: Connection) -> None:
    context.configure(connection=connection, target_metadata=metadata)
    with context.begin_transaction():
        context.run_migrations()


def _run() -> None:
    connection = context.config.attributes.get("connection")
    if connection is None:
        raise RuntimeError(
            "run migrations with `pd-tracer migrate`: alembic alone does not know the database"
        )
    _migrate(connection)


_run()
