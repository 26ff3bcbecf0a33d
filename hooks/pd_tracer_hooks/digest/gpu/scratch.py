"""The memory behind a digest under way: a block on the device, its twin in pinned memory, an event."""

from __future__ import annotations

from collections import deque
from typing import Any, NamedTuple

import torch

from pd_tracer_hooks.digest.gpu.driver import Driver
from pd_tracer_hooks.digest.gpu.pools import MAX_DEVICE_BYTES, Arena, Events

WORD = 8


class Lease(NamedTuple):
    """What one digest holds: a range of words, an event, and the addresses of the range."""

    block: tuple[int, int]
    event: int
    device_address: int
    host_address: int

    @property
    def start(self) -> int:
        """First word of the range."""
        return self.block[0]


class Scratch:
    """All of it, allocated at once. Raises ``ValueError`` for a size beyond the limit a rank has."""

    def __init__(self, driver: Driver, device: torch.device, size: int, events: int) -> None:
        if not 0 < size <= MAX_DEVICE_BYTES:
            raise ValueError(f"scratch of {size} bytes: give 1 to {MAX_DEVICE_BYTES} (64 MiB a rank)")
        self._driver = driver
        self._arena = Arena(size // WORD)
        self._events = Events(driver.create_event, events)
        self._abandoned: deque[Lease] = deque()
        self.device = torch.empty(self._arena.words, dtype=torch.int64, device=device)
        # Written once, so that the pages are there before the first request.
        self._pinned = torch.zeros(self._arena.words, dtype=torch.int64, pin_memory=True)
        #: The pinned words, as a numpy array.
        self.host: Any = self._pinned.numpy()
        self._device_start = self.device.data_ptr()
        self._host_start = self._pinned.data_ptr()

    def take(self, words: int) -> Lease:
        """A range of ``words`` words and an event. Raises :class:`~..backend.ScratchFull`."""
        if self._abandoned:
            self.reclaim()
        event = self._events.take()
        try:
            block = self._arena.take(words)
        except BaseException:
            self._events.give(event)
            raise
        offset = WORD * block[0]
        return Lease(block, event, self._device_start + offset, self._host_start + offset)

    def give(self, lease: Lease) -> None:
        """Give a lease back whose event has passed."""
        self._arena.give(lease.block)
        self._events.give(lease.event)

    def abandon(self, lease: Lease) -> None:
        """Give a lease back whose digest may still be under way. Safe in a finaliser."""
        self._abandoned.append(lease)

    def reclaim(self) -> None:
        """Take in the abandoned leases whose digests are done by now."""
        for _ in range(len(self._abandoned)):
            try:
                lease = self._abandoned.popleft()
            except IndexError:
                return
            if self._driver.passed(lease.event):
                self.give(lease)
            else:
                self._abandoned.append(lease)

    def free_bytes(self) -> int:
        """Bytes not taken, on either side."""
        return WORD * self._arena.free_words()
