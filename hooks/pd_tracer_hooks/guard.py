"""Keeps the hooks' own faults away from their host."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from types import TracebackType

_log = logging.getLogger("pd_tracer")


class Guard:
    """A context manager that swallows and counts exceptions, and gives up after too many.

    ``with guard:`` around everything of ours that runs on an engine's thread. After ``limit`` faults
    ``detached`` is true for good, and callers do nothing from then on. ``raising`` lets exceptions
    through after counting them, for tests, so that hooks cannot rot in silence. ``KeyboardInterrupt``,
    ``SystemExit`` and their like always pass.
    """

    def __init__(
        self, limit: int, *, raising: bool = False, on_fault: Callable[[], None] | None = None
    ) -> None:
        self.detached = False
        self._limit = limit
        self._raising = raising
        self._on_fault = on_fault
        self._lock = threading.Lock()
        self._faults = 0
        self._seen: set[tuple[str, str, int]] = set()

    @property
    def faults(self) -> int:
        """Faults met so far."""
        return self._faults

    def renew(self) -> None:
        """In the child of a fork: a thread that is not there may hold the lock."""
        self._lock = threading.Lock()

    def __enter__(self) -> Guard:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        if error is None or not isinstance(error, Exception):
            return False
        self.met(error)
        return not self._raising

    def met(self, error: Exception) -> None:
        """Count a fault that was caught elsewhere, such as on a thread of ours."""
        with self._lock:
            self._faults += 1
            gives_up = self._faults >= self._limit and not self.detached
            if gives_up:
                self.detached = True
            place = _place(error)
            new = place not in self._seen
            self._seen.add(place)
        if self._on_fault is not None:
            self._on_fault()
        if new:
            _log.warning("pd-tracer's hooks met a fault of their own: %s", error, exc_info=error)
        if gives_up:
            _log.error(
                "pd-tracer's hooks met %d faults of their own and have taken themselves out; "
                "the engine goes on without them until it is restarted",
                self._faults,
            )


def _place(error: Exception) -> tuple[str, str, int]:
    """The kind of ``error`` and where it was raised, so that each is logged once."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    if trace is None:
        return type(error).__name__, "", 0
    return type(error).__name__, trace.tb_frame.f_code.co_filename, trace.tb_lineno
