"""Time passing: rooms whose other side never came are judged again when their deadline is over.

The store finds them by index, so this works after a restart and when nothing else arrives. They go
through the one writer like everything else, which judges them as they are by then.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import TimeoutError as FutureTimeout

import structlog
from sqlalchemy import select
from sqlalchemy.exc import SQLAlchemyError

from tracer.store.codec import RoomRef
from tracer.store.database import Database
from tracer.store.failures import Refused, Unavailable
from tracer.store.schema import rooms
from tracer.store.writer import Writer

log = structlog.get_logger(__name__)

#: Rooms judged again in one round.
ROUND = 500
EVERY_S = 0.5
#: A round that the writer has not done by then is asked for again.
_PATIENCE_S = 60.0


def due_rooms(database: Database, now: float, limit: int) -> list[RoomRef]:
    """Rooms whose deadline is over, the longest overdue first."""
    query = (
        select(rooms.c.deployment, rooms.c.room)
        .where(rooms.c.deadline <= now)
        .order_by(rooms.c.deadline)
        .limit(limit)
    )
    with database.read.connect() as connection:
        return [(deployment, room) for deployment, room in connection.execute(query)]


class Deadlines:
    """A thread that looks for overdue rooms every :data:`EVERY_S` seconds."""

    def __init__(
        self,
        database: Database,
        writer: Writer,
        *,
        clock: Callable[[], float] = time.time,
        every_s: float = EVERY_S,
        round_size: int = ROUND,
        also: Callable[[], None] = lambda: None,
    ) -> None:
        self._database = database
        self._writer = writer
        self._clock = clock
        self._every_s = every_s
        self._round_size = round_size
        self._also = also
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="pd-tracer-deadlines", daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def stop(self, timeout: float | None = None) -> None:
        """End the thread."""
        self._stop.set()
        if self._thread.ident is not None:
            self._thread.join(timeout)

    def sweep(self) -> int:
        """Judge what is due, in rounds. Returns how many rooms that were.

        Raises ``SQLAlchemyError``, :class:`Unavailable` or :class:`Refused` as the store does.
        """
        total = 0
        while not self._stop.is_set():
            due = due_rooms(self._database, self._clock(), self._round_size)
            if due:
                self._writer.recheck(due).result(_PATIENCE_S)
            total += len(due)
            if len(due) < self._round_size:
                break
        return total

    def _run(self) -> None:
        troubled = False
        while not self._stop.wait(self._every_s):
            try:
                self.sweep()
                self._also()
                troubled = False
            except (SQLAlchemyError, Unavailable, Refused, FutureTimeout) as error:
                # Said once, not twice a second, while the database is away.
                if not troubled:
                    log.warning("deadlines wait for the database", error=str(error))
                troubled = True
            except Exception:  # nothing may end the thread
                log.exception("deadlines failed")
