"""The bounded queue between the hooks and the sender.

Records are kept encoded, so that their bytes are known. When there is no place, the newcomer is refused:
what waits already is older and closer to completing its rooms. Manifests and ``dropped`` events, which
must go out although the queue is full, have places of their own.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Sequence
from typing import NamedTuple

from pd_tracer_hooks.wire import RecordKind

#: Places beyond the queue's own. A ``dropped`` event takes about 150 bytes.
RESERVED = 8192


class Queued(NamedTuple):
    """One record that waits."""

    kind: RecordKind
    body: bytes


class Outbox:
    """Thread-safe. ``put`` never blocks; one sender calls ``take``."""

    def __init__(self, records: int, size: int, *, wake_at: int) -> None:
        """At most ``records`` records and ``size`` bytes; ``wake`` is set once ``wake_at`` records wait."""
        self.wake = threading.Event()
        self._records, self._size, self._wake_at = records, size, wake_at
        self._lock = threading.Lock()
        self._queue: deque[Queued] = deque()
        self._bytes = 0
        self._reserve: deque[Queued] = deque()

    def __len__(self) -> int:
        return len(self._queue) + len(self._reserve)

    def put(self, item: Queued) -> bool:
        """Queue a record, or say no."""
        size = len(item.body)
        with self._lock:
            waiting = len(self._queue)
            if waiting >= self._records or self._bytes + size > self._size:
                return False
            self._queue.append(item)
            self._bytes += size
        if waiting + 1 >= self._wake_at:
            self.wake.set()
        return True

    def put_reserved(self, item: Queued) -> bool:
        """Queue a record that must go out although the queue is full, as long as there is reserve."""
        with self._lock:
            waiting = len(self._reserve)
            if waiting >= RESERVED:
                return False
            self._reserve.append(item)
        if waiting + 1 >= self._wake_at:
            self.wake.set()
        return True

    def take(self, records: int, size: int) -> list[Queued]:
        """Take the reserve, then the oldest: ``records`` and ``size`` bytes at most, but one if any waits."""
        taken: list[Queued] = []
        total = 0
        with self._lock:
            for queue in (self._reserve, self._queue):
                while queue and len(taken) < records:
                    total += len(queue[0].body)
                    if taken and total > size:
                        return taken
                    item = queue.popleft()
                    if queue is self._queue:
                        self._bytes -= len(item.body)
                    taken.append(item)
        return taken

    def discard(self) -> int:
        """Empty the queue. Returns how many records were in it."""
        with self._lock:
            count = len(self._queue) + len(self._reserve)
            self._queue.clear()
            self._reserve.clear()
            self._bytes = 0
        return count


def split_halves(items: Sequence[Queued]) -> tuple[list[Queued], list[Queued]]:
    """Both halves of a batch that was too large."""
    middle = len(items) // 2
    return list(items[:middle]), list(items[middle:])
