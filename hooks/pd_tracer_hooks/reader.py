"""The thread that waits for digests under way and turns them into observations.

The engine's thread launches a digest and leaves; here its result is picked up, summed, and queued.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from pd_tracer_hooks.capture import Launched, Look, Plan, Read, observation
from pd_tracer_hooks.digest.backend import ScratchFull
from pd_tracer_hooks.drops import Drop
from pd_tracer_hooks.wire import Observation, Owned, Stage

_log = logging.getLogger("pd_tracer")

#: Pauses between two questions whether a digest is done: short at first, since most are done at once.
FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.0002, 0.005

#: Names a component whose page count came later: room, key, stage, component.
TotalKey = tuple[str, str, Stage, str]


@dataclass
class Job:
    """One look under way. ``seq`` was given when the engine called, so it tells the order of calls."""

    look: Look
    seq: int
    launched: Sequence[Launched]
    given_up_at: float
    reads: list[Read] = field(default_factory=list)
    owned: Owned = Owned.unknown


class Reader:
    """Picks digests up. Bounded: beyond ``limit`` jobs :meth:`submit` says no."""

    def __init__(
        self,
        plan: Plan,
        *,
        limit: int,
        patience_s: float,
        deliver: Callable[[Observation], None],
        lose: Callable[[Look, Drop], None],
        fault: Callable[[Exception], None],
    ) -> None:
        self._plan, self._limit, self._patience_s = plan, limit, patience_s
        self._deliver, self._lose, self._fault = deliver, lose, fault
        self._lock = threading.Lock()
        self._wake = threading.Event()
        self._idle = threading.Event()
        self._idle.set()
        self._arrived: deque[Job] = deque()
        self._totals: dict[TotalKey, int] = {}
        self._under_way: list[Job] = []
        self._unsized: list[Job] = []
        self._closing = False
        self._thread: threading.Thread | None = None

    def __len__(self) -> int:
        return len(self._arrived) + len(self._under_way) + len(self._unsized)

    def start(self) -> None:
        """Start the thread, a daemon."""
        self._thread = threading.Thread(target=self._run, name="pd-tracer-reader", daemon=True)
        self._thread.start()

    def submit(self, look: Look, seq: int, launched: Sequence[Launched]) -> bool:
        """Take a look's digests to wait for, or say no."""
        if len(self) >= self._limit:
            return False
        job = Job(look, seq, launched, time.monotonic() + self._patience_s)
        self._idle.clear()
        self._arrived.append(job)
        self._wake.set()
        return True

    def total(self, key: TotalKey, pages: int) -> None:
        """The page count that looks of ``key`` waited for."""
        with self._lock:
            self._totals[key] = pages
            while len(self._totals) > 4 * self._limit:
                self._totals.pop(next(iter(self._totals)))
        self._wake.set()

    def close(self, deadline: float) -> None:
        """Read what is under way until ``deadline`` (monotonic); the rest is lost and counted."""
        self._idle.wait(max(0.0, deadline - time.monotonic()))
        self._closing = True
        self._wake.set()
        if self._thread is not None:
            self._thread.join(max(0.0, deadline - time.monotonic()) + 0.05)
        for job in [*self._arrived, *self._under_way, *self._unsized]:
            self._lose(job.look, Drop.shutdown)

    def _run(self) -> None:
        pause = FIRST_PAUSE_S
        while not self._closing:
            waiting = bool(self._under_way)
            limit = pause if waiting else (0.5 if self._unsized else None)
            if self._wake.wait(limit):
                self._wake.clear()
                pause = FIRST_PAUSE_S
            else:
                pause = min(pause * 2, LONGEST_PAUSE_S)
            while self._arrived:
                self._under_way.append(self._arrived.popleft())
            self._under_way = [job for job in self._under_way if not self._advance(job, self._read)]
            self._unsized = [job for job in self._unsized if not self._advance(job, self._size)]
            if not (self._arrived or self._under_way or self._unsized):
                self._idle.set()
                if self._arrived:  # came between the look and the set
                    self._idle.clear()

    def _advance(self, job: Job, step: Callable[[Job], bool]) -> bool:
        """Take a job one step on. Says whether it has left this list."""
        try:
            if step(job):
                return True
            if time.monotonic() < job.given_up_at:
                return False
            self._lose(job.look, Drop.digest_late)
        except ScratchFull:
            self._lose(job.look, Drop.scratch_full)
        except Exception as error:
            self._lose(job.look, Drop.digest_failed)
            self._fault(error)
        return True

    def _read(self, job: Job) -> bool:
        if not all(launched.pending.ready() for launched in job.launched):
            return False
        job.reads = [Read(la.look, la.ordinals, la.physical, la.pending.result()) for la in job.launched]
        owned = job.look.owned
        job.owned = owned() if callable(owned) else owned
        if not self._size(job):
            self._unsized.append(job)
        return True

    def _size(self, job: Job) -> bool:
        """Deliver the job's observation, if the page counts of all its components are known."""
        totals: dict[str, int] = {}
        for read in job.reads:
            if read.look.total_pages is None:
                name = read.look.pool.component
                found = self._total_of(job.look, name)
                if found is None:
                    return False
                totals[name] = found
        self._deliver(
            observation(job.look, self._plan, job.reads, totals=totals, seq=job.seq, owned=job.owned)
        )
        return True

    def _total_of(self, look: Look, component: str) -> int | None:
        with self._lock:
            for key in look.keys or ("",):
                found = self._totals.get((look.room, key, look.stage, component))
                if found is not None:
                    return found
        return None
