"""Bounded memory for digests under way: one arena on the device, its mirror image in pinned host memory.

Both are allocated once, at attach. A call takes one block (the same place in both) and one event, and
gives them back when its result has been read; with no room left it is told so at once.
"""

from __future__ import annotations

import threading
from bisect import bisect_left
from collections.abc import Callable

from pd_tracer_hooks.digest.backend import ScratchFull

#: A rank may take no more device memory than this.
MAX_DEVICE_BYTES = 64 << 20
#: Blocks start on multiples of this many words (128 bytes), so that no two share a cache line.
GRAIN = 16


class Arena:
    """Gives out ranges of ``words`` words, first fit. Thread-safe; knows nothing of the memory itself."""

    def __init__(self, words: int) -> None:
        self.words = words // GRAIN * GRAIN
        self._lock = threading.Lock()
        #: Free ranges as (start, words), ascending and never touching.
        self._free = [(0, self.words)]

    def take(self, words: int) -> tuple[int, int]:
        """A free range (start, words) of at least ``words`` words. Raises :class:`ScratchFull`."""
        size = -(-words // GRAIN) * GRAIN
        with self._lock:
            for index, (start, length) in enumerate(self._free):
                if length >= size:
                    if length == size:
                        del self._free[index]
                    else:
                        self._free[index] = (start + size, length - size)
                    return start, size
            free = sum(length for _, length in self._free)
        raise ScratchFull(
            f"a digest needs {8 * size} bytes of scratch, {8 * free} of {8 * self.words} are free: "
            "trace fewer rooms, or raise the scratch limit"
        )

    def give(self, block: tuple[int, int]) -> None:
        """Give a range back, exactly as it was taken."""
        start, size = block
        with self._lock:
            index = bisect_left(self._free, (start, 0))
            if index < len(self._free) and self._free[index][0] == start + size:
                size += self._free.pop(index)[1]
            if index and sum(self._free[index - 1]) == start:
                before = self._free.pop(index - 1)
                start, size = before[0], before[1] + size
                index -= 1
            self._free.insert(index, (start, size))

    def free_words(self) -> int:
        """Words not taken."""
        with self._lock:
            return sum(length for _, length in self._free)


class Events:
    """A fixed number of events, made at attach."""

    def __init__(self, create: Callable[[], int], count: int) -> None:
        self._spare = [create() for _ in range(count)]
        self.count = count

    def take(self) -> int:
        """A spare event. Raises :class:`ScratchFull`."""
        try:
            return self._spare.pop()
        except IndexError:
            raise ScratchFull(f"{self.count} digests are under way, which is the limit") from None

    def give(self, event: int) -> None:
        """Give an event back."""
        self._spare.append(event)
