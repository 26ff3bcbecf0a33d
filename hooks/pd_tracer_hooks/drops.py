"""What was lost in this worker, by reason. Cumulative since its boot; every report carries it."""

from __future__ import annotations

import threading
from enum import Enum


class Drop(str, Enum):
    """Why a record, or a whole room, was lost."""

    #: No place on the queue: too many records or bytes wait to be sent.
    queue_full = "queue_full"
    #: No place for one more digest under way.
    pending_full = "pending_full"
    #: The backend's memory for digests was used up.
    scratch_full = "scratch_full"
    #: A digest was not done in time.
    digest_late = "digest_late"
    #: A digest failed.
    digest_failed = "digest_failed"
    #: The collector refused it.
    refused = "refused"
    #: By itself larger than the collector takes.
    too_large = "too_large"
    #: Reports (not records) that went from a full spool to make place for later ones.
    spool_full = "spool_full"
    #: Not delivered before the process ended.
    shutdown = "shutdown"
    #: The hooks met one of their own faults.
    fault = "fault"


class Drops:
    """Thread-safe counts."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._counts: dict[str, int] = {}

    def add(self, reason: Drop, count: int = 1) -> None:
        """Count ``count`` lost records."""
        with self._lock:
            self._counts[reason.value] = self._counts.get(reason.value, 0) + count

    def counts(self) -> dict[str, int]:
        """The counts so far, by reason."""
        with self._lock:
            return dict(self._counts)
