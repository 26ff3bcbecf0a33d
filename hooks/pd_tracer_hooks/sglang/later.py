"""Looks that come later: after some milliseconds, or when a device event is done. One thread a process.

The engine's thread only puts a job here; it never waits. The thread is started when first used, and
started afresh in a process that was forked.
"""

from __future__ import annotations

import heapq
import os
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

#: How often pending events are asked, and how many jobs may wait.
ASK_EVERY_S = 0.0005
MAX_JOBS = 4096
#: An event that is not done by then never will be: the job is dropped.
GIVE_UP_S = 60.0

Job = Callable[[], None]


class Later:
    """Runs jobs at a time or after events. ``on_drop`` is told the reason of each job that is lost."""

    def __init__(self, run: Callable[[Job], None], on_drop: Callable[[str], None]) -> None:
        self._run = run
        self._on_drop = on_drop
        self._condition = threading.Condition()
        self._timed: list[tuple[float, int, Job]] = []
        self._waiting: list[tuple[float, Sequence[Any], Job]] = []
        self._number = 0
        self._owner = 0
        self._thread: threading.Thread | None = None
        self._closed = False

    def after(self, seconds: float, job: Job) -> None:
        """Run ``job`` in ``seconds``, if there is room for it."""
        with self._condition:
            if self._full():
                return
            self._number += 1
            heapq.heappush(self._timed, (time.monotonic() + seconds, self._number, job))
            self._awake()

    def when(self, events: Sequence[Any], job: Job) -> None:
        """Run ``job`` once every event's ``query()`` says yes: at once, here, if they all do already."""
        if all(event.query() for event in events):
            job()
            return
        with self._condition:
            if self._full():
                return
            self._waiting.append((time.monotonic() + GIVE_UP_S, tuple(events), job))
            self._awake()

    def close(self) -> None:
        """Drop what waits and end the thread."""
        with self._condition:
            self._closed = True
            self._timed.clear()
            self._waiting.clear()
            self._condition.notify_all()
        if self._thread is not None and self._owner == os.getpid():
            self._thread.join(timeout=2)

    def _full(self) -> bool:
        if self._closed or len(self._timed) + len(self._waiting) >= MAX_JOBS:
            self._on_drop("later_full")
            return True
        return False

    def _awake(self) -> None:
        if self._thread is None or self._owner != os.getpid():
            self._owner = os.getpid()
            self._thread = threading.Thread(target=self._loop, name="pd-tracer-later", daemon=True)
            self._thread.start()
        self._condition.notify_all()

    def _loop(self) -> None:
        while True:
            with self._condition:
                jobs = self._due()
                while not jobs and not self._closed:
                    self._condition.wait(self._pause())
                    jobs = self._due()
                if self._closed:
                    return
            for job in jobs:
                self._run(job)

    def _due(self) -> list[Job]:
        now = time.monotonic()
        jobs: list[Job] = []
        while self._timed and self._timed[0][0] <= now:
            jobs.append(heapq.heappop(self._timed)[2])
        waiting = []
        for give_up, events, job in self._waiting:
            if all(event.query() for event in events):
                jobs.append(job)
            elif now >= give_up:
                self._on_drop("event_never_done")
            else:
                waiting.append((give_up, events, job))
        self._waiting = waiting
        return jobs

    def _pause(self) -> float | None:
        until = self._timed[0][0] - time.monotonic() if self._timed else None
        if self._waiting:
            return ASK_EVERY_S if until is None else min(ASK_EVERY_S, max(until, 0.0))
        return until
