"""The page digests of recent looks, kept in host memory for when somebody asks.

Steady state sends sums: enough to see that something differs. The digests behind them, one a page and layer,
are kept here for a while, so that after a mismatch each bad cell can be named. Nothing is read again for it:
what is kept is what the sums were made of, and at coverage ``ends`` that is head and tail.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from pd_tracer_hooks.runs import Run
from pd_tracer_hooks.wire import Stage

#: What an entry weighs beside its digests.
_ENTRY_BYTES = 512


@dataclass(frozen=True)
class Entry:
    """One component of one look. ``digests`` are layers x pages, packed, pages in the order of ``runs``."""

    room: str
    keys: tuple[str, ...]
    stage: Stage
    look: int
    component: str
    layers: tuple[int, ...]
    runs: tuple[Run, ...]
    digests: bytes
    #: Order-free sums of the same cells, packed alike, or empty.
    order_free: bytes = b""

    @property
    def size(self) -> int:
        """Bytes that it is counted with."""
        return len(self.digests) + len(self.order_free) + _ENTRY_BYTES


class Journal:
    """A ring by rooms: when it is full, the room that was looked at longest ago goes. Thread-safe."""

    def __init__(self, limit: int) -> None:
        """``limit``: bytes; 0 keeps nothing."""
        self._limit = limit
        self._lock = threading.Lock()
        self._rooms: OrderedDict[str, list[Entry]] = OrderedDict()
        self._bytes = 0

    def __len__(self) -> int:
        return len(self._rooms)

    @property
    def size(self) -> int:
        """Bytes kept."""
        return self._bytes

    def keep(self, entry: Entry) -> None:
        """Keep an entry, at the cost of the oldest rooms. One larger than the whole journal is not kept."""
        if entry.size > self._limit:
            return
        with self._lock:
            self._rooms.setdefault(entry.room, []).append(entry)
            self._rooms.move_to_end(entry.room)
            self._bytes += entry.size
            while self._bytes > self._limit:
                _, gone = self._rooms.popitem(last=False)
                self._bytes -= sum(each.size for each in gone)

    def find(
        self, room: str, *, keys: Collection[str] = (), component: str = "", stages: Sequence[str] = ()
    ) -> list[Entry]:
        """What is kept of a room, oldest first. Empty filters take everything."""
        with self._lock:
            entries = list(self._rooms.get(room, ()))
        return [
            entry
            for entry in entries
            if (not keys or not entry.keys or not set(keys).isdisjoint(entry.keys))
            and component in ("", entry.component)
            and (not stages or entry.stage.value in stages)
        ]
