"""The bounded queue between the hooks and the sender.

Records are kept encoded, so that their bytes are known. When there is no place, the newcomer is refused:
what waits already is older and closer to completing its rooms. A room that lost a record is marked, since
half a room would look like damage: its later records are refused too, and one ``dropped`` event for it
goes out from slots kept in reserve.
"""

from __future__ import annotations

import threading
import time
from collections import OrderedDict, deque
from collections.abc import Callable, Sequence
from typing import NamedTuple

from pd_tracer_hooks.wire import RecordKind

#: Rooms that are remembered as dropped, and for how long (seconds).
MARKS, MARK_S = 65_536, 600.0
#: Places for ``dropped`` events and manifests beyond the queue's own.
RESERVED = 1024


class Queued(NamedTuple):
    """One record that waits."""

    kind: RecordKind
    body: bytes


class Outbox:
    """Thread-safe. ``put`` never blocks; one sender calls ``take``."""

    def __init__(
        self, records: int, size: int, *, wake_at: int, clock: Callable[[], float] = time.monotonic
    ) -> None:
        """At most ``records`` records and ``size`` bytes; ``wake`` is set once ``wake_at`` records wait."""
        self.wake = threading.Event()
        self._records, self._size, self._wake_at = records, size, wake_at
        self._clock = clock
        self._lock = threading.Lock()
        self._queue: deque[Queued] = deque()
        self._bytes = 0
        self._reserved = 0
        self._marks: OrderedDict[str, float] = OrderedDict()

    def __len__(self) -> int:
        return len(self._queue)

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
            if self._reserved >= RESERVED:
                return False
            self._reserved += 1
            self._queue.append(item)
            self._bytes += len(item.body)
        return True

    def mark(self, room: str) -> bool:
        """Mark a room as dropped. Says whether it was not marked before."""
        with self._lock:
            new = not self._marked(room)
            self._marks[room] = self._clock() + MARK_S
            self._marks.move_to_end(room)
            while len(self._marks) > MARKS:
                self._marks.popitem(last=False)
        return new

    def marked(self, room: str) -> bool:
        """Whether a room is marked as dropped."""
        if not self._marks:
            return False
        with self._lock:
            return self._marked(room)

    def unmark(self, room: str) -> None:
        """Forget a mark: the room begins anew."""
        if self._marks:
            with self._lock:
                self._marks.pop(room, None)

    def take(self, records: int, size: int) -> list[Queued]:
        """Take the oldest records: at most ``records`` and ``size`` bytes, but at least one if any waits."""
        taken: list[Queued] = []
        total = 0
        with self._lock:
            while self._queue and len(taken) < records:
                total += len(self._queue[0].body)
                if taken and total > size:
                    break
                item = self._queue.popleft()
                self._bytes -= len(item.body)
                taken.append(item)
            if not self._queue:
                self._reserved = 0
        return taken

    def discard(self) -> int:
        """Empty the queue. Returns how many records were in it."""
        with self._lock:
            count = len(self._queue)
            self._queue.clear()
            self._bytes = self._reserved = 0
        return count

    def _marked(self, room: str) -> bool:
        until = self._marks.get(room)
        if until is None:
            return False
        if until < self._clock():
            del self._marks[room]
            return False
        return True


def split_halves(items: Sequence[Queued]) -> tuple[list[Queued], list[Queued]]:
    """Both halves of a batch that was too large."""
    middle = len(items) // 2
    return list(items[:middle]), list(items[middle:])
