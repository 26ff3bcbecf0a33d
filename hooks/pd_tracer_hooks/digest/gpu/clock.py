"""Keeping :class:`~.timer.TimerMap` up to date: reads the GPU's timer from threads that may wait."""

from __future__ import annotations

import threading
import time
from contextlib import suppress

from pd_tracer_hooks.digest.backend import ScratchFull
from pd_tracer_hooks.digest.gpu.driver import Driver
from pd_tracer_hooks.digest.gpu.launch import compile_timer
from pd_tracer_hooks.digest.gpu.scratch import WORD, Lease, Scratch
from pd_tracer_hooks.digest.gpu.timer import Reading, TimerMap, measure

READINGS = 25
#: Seconds between measurements, while digests are made at all.
REFRESH_S = 30.0


class GpuClock:
    """Translates the GPU's timer; measures its offset at once and then every :data:`REFRESH_S` seconds."""

    def __init__(self, driver: Driver, scratch: Scratch) -> None:
        self._driver, self._scratch = driver, scratch
        # Before everything that waits for a place on the GPU: a reading that waits tells little.
        self._stream = driver.create_stream()
        self._kernel = compile_timer()
        self._measuring = threading.Lock()
        lease = scratch.take(1)
        self._read(lease)  # the first launch is slow
        self.map = TimerMap(measure(lambda: self._read(lease), READINGS))
        scratch.give(lease)
        self._measured = time.monotonic()

    def _read(self, lease: Lease) -> Reading:
        stream = self._stream
        before = time.time_ns()
        self._kernel[(1, 1, 1)](lease.device_address, stream=stream)
        self._driver.to_host(lease.host_address, lease.device_address, WORD, stream)
        self._driver.wait_stream(stream)
        return before, int(self._scratch.host[lease.start]), time.time_ns()

    def refresh(self, *, force: bool = False) -> None:
        """Measure again if it is time. Waits for the GPU, so not on an engine's thread."""
        if not force and time.monotonic() - self._measured < REFRESH_S:
            return
        if not self._measuring.acquire(blocking=False):
            return
        try:
            # Without a spare word now there will be one next time.
            with suppress(ScratchFull):
                lease = self._scratch.take(1)
                try:
                    self.map = self.map.updated(measure(lambda: self._read(lease), READINGS))
                finally:
                    self._scratch.give(lease)
                self._measured = time.monotonic()
        finally:
            self._measuring.release()
