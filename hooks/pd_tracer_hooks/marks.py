"""Rooms that lost a record: nothing more of them is sent, since half a room would look like damage."""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from pd_tracer_hooks.drops import Drop

#: Rooms that are remembered, and for how long (seconds).
MARKS, MARK_S = 65_536, 600.0
#: Transfer keys that are told apart in one of them.
KEYS = 256


@dataclass
class _Mark:
    reason: Drop
    until: float
    keys: set[str] = field(default_factory=set)


class Marks:
    """Thread-safe. The oldest mark gives way when there are too many, and each one expires."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._marks: OrderedDict[str, _Mark] = OrderedDict()

    def add(self, room: str, keys: Sequence[str], reason: Drop) -> bool:
        """Mark a room. Says whether there is news: the mark, or a transfer key that it did not have.

        A room that is marked keeps its first reason, and the time at which its mark expires.
        """
        with self._lock:
            mark = self._find(room)
            news = mark is None
            if mark is None:
                mark = self._marks[room] = _Mark(reason, self._clock() + MARK_S)
                while len(self._marks) > MARKS:
                    self._marks.popitem(last=False)
            for key in keys:
                if key not in mark.keys and len(mark.keys) < KEYS:
                    mark.keys.add(key)
                    news = True
        return news

    def reason(self, room: str) -> Drop | None:
        """Why a room is marked, or None while it is not. Costs next to nothing while no room is."""
        if not self._marks:
            return None
        with self._lock:
            mark = self._find(room)
        return None if mark is None else mark.reason

    def clear(self, room: str) -> None:
        """Forget a mark: the room begins anew."""
        if self._marks:
            with self._lock:
                self._marks.pop(room, None)

    def _find(self, room: str) -> _Mark | None:
        mark = self._marks.get(room)
        if mark is not None and mark.until < self._clock():
            del self._marks[room]
            return None
        return mark
