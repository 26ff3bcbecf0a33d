"""The collector without its HTTP face: the database, the writer, the deadlines and the counters."""

from __future__ import annotations

import time
from dataclasses import dataclass

import structlog
from prometheus_client import CollectorRegistry
from sqlalchemy import Connection
from sqlalchemy.exc import SQLAlchemyError

from tracer.metrics.counters import Counters
from tracer.metrics.gauges import StoreGauges
from tracer.settings import Settings
from tracer.store import migrate
from tracer.store.database import Database, open_database
from tracer.store.deadlines import Deadlines
from tracer.store.flush import Flusher
from tracer.store.holdings import Holdings
from tracer.store.rollups import load_pairs
from tracer.store.statements_postgres import PostgresStatements
from tracer.store.statements_sqlite import SqliteStatements
from tracer.store.wants import Asking, Wants
from tracer.store.writer import Writer

log = structlog.get_logger(__name__)

#: How long a stop waits for what is queued.
DRAIN_S = 60.0


@dataclass(frozen=True)
class Collector:
    """Everything that the routes work with. Found at ``app.state.collector``."""

    settings: Settings
    database: Database
    writer: Writer
    deadlines: Deadlines
    counters: Counters
    registry: CollectorRegistry
    wants: Wants

    def start(self) -> None:
        """Bring the schema up to date where that is ours to do, and start the threads.

        Raises ``sqlalchemy.exc.SQLAlchemyError`` when a SQLite file cannot be used. A PostgreSQL that is
        away is waited for: until it comes, reports are answered 503.
        """
        if self.database.is_sqlite:
            self._migrate()
        elif self.settings.auto_migrate:
            try:
                self._migrate()
            except SQLAlchemyError as error:
                log.warning("schema not brought up to date", error=str(error))
        try:
            with self.database.read.connect() as connection:
                self.counters.know_pairs(load_pairs(connection))
        except SQLAlchemyError as error:
            log.warning("database not ready yet", error=str(error))
        self.writer.start()
        self.deadlines.start()

    def _migrate(self) -> None:
        before, after = migrate.upgrade(self.database)
        if before != after:
            log.info("schema brought up to date", before=before or "empty", after=after)

    def stop(self) -> None:
        """Write what is queued and close everything."""
        self.deadlines.stop(DRAIN_S)
        if not self.writer.stop(DRAIN_S):
            log.error("stopped before everything queued was written", batches=self.writer.queued)
        self.database.dispose()


def make_collector(settings: Settings) -> Collector:
    """Put a collector together. Nothing is connected or started yet.

    Raises ``ValueError`` for a database URL that cannot be used.
    """
    registry = CollectorRegistry()
    counters = Counters(registry)
    wants = Wants()
    database = open_database(settings.database_url)
    registry.register(StoreGauges(database, settings.ratio_window_s))

    def make_flusher(connection: Connection) -> Flusher:
        with connection.begin():
            pairs = load_pairs(connection)
        counters.know_pairs(pairs)
        statements = SqliteStatements() if database.is_sqlite else PostgresStatements()
        return Flusher(
            statements,
            settings.policy(),
            replica=settings.replica,
            pairs=pairs,
            asking=Asking(settings.asks(), wants),
            holdings=Holdings(settings.holdings_s),
        )

    writer = Writer(
        database,
        make_flusher,
        counters,
        queue_batches=settings.queue_batches,
        queue_bytes=settings.queue_bytes,
    )

    def also() -> None:
        counters.expire()
        with database.read.connect() as connection:
            wants.refresh(connection, time.time())

    deadlines = Deadlines(database, writer, also=also)
    return Collector(settings, database, writer, deadlines, counters, registry, wants)
