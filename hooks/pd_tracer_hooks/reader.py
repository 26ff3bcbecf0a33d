"""The thread that waits for digests under way and turns them into observations.

The engine's thread launches a digest and leaves; here its result is picked up, summed, and queued.
"""

from __future__ import annotations

import itertools
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from pd_tracer_hooks.capture import Launched, Look, Plan, Read, observation
from pd_tracer_hooks.digest.backend import ScratchFull
from pd_tracer_hooks.drops import Drop
from pd_tracer_hooks.journal import Entry, Journal
from pd_tracer_hooks.runs import runs_of
from pd_tracer_hooks.wire import Observation, Owned, Stage

#: Pauses between two questions whether a digest is done: short at first, since most are done at once.
FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.0002, 0.005
#: Bytes of page digests that are kept for looks whose page count is not known yet.
KEPT_BYTES = 64 << 20
#: How many times longer than a digest may take such a look waits: for the rest of its room's chunks.
TOTAL_PATIENCE = 10

#: Names a component whose page count came later: room, key, stage, component.
TotalKey = tuple[str, str, Stage, str]


@dataclass
class Job:
    """One look under way. ``seq`` was given when the engine called, so it tells the order of calls."""

    look: Look
    seq: int
    launched: Sequence[Launched]
    #: Its place among looks and page counts.
    order: int
    given_up_at: float
    plan: Plan
    reads: list[Read] = field(default_factory=list)
    owned: Owned = Owned.unknown
    kept_bytes: int = 0


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
        journal: Journal | None = None,
    ) -> None:
        self._plan, self._limit, self._patience_s = plan, limit, patience_s
        self._journal = journal
        self._deliver, self._lose, self._fault = deliver, lose, fault
        self._lock = threading.Lock()
        self._wake = threading.Event()
        #: Set while no digest is under way; looks that wait for a page count do not matter.
        self._idle = threading.Event()
        self._idle.set()
        self._order = itertools.count()
        self._arrived: deque[Job] = deque()
        self._totals: dict[TotalKey, tuple[int, int]] = {}
        self._under_way: list[Job] = []
        self._unsized: list[Job] = []
        self._kept_bytes = 0
        self._closing = False
        self._thread: threading.Thread | None = None

    def __len__(self) -> int:
        return len(self._arrived) + len(self._under_way) + len(self._unsized)

    def start(self) -> None:
        """Start the thread, a daemon, unless it was."""
        if self._thread is None:
            thread = threading.Thread(target=self._run, name="pd-tracer-reader", daemon=True)
            thread.start()
            self._thread = thread

    def submit(self, look: Look, seq: int, launched: Sequence[Launched], plan: Plan | None = None) -> bool:
        """Take a look's digests to wait for, or say no. ``plan``: its own, where it has one."""
        if len(self) >= self._limit:
            return False
        given_up_at = time.monotonic() + self._patience_s
        job = Job(look, seq, launched, next(self._order), given_up_at, plan or self._plan)
        # In this order: the thread sets `idle` and then looks at `arrived` once more.
        self._arrived.append(job)
        self._idle.clear()
        self._wake.set()
        return True

    def total(self, key: TotalKey, pages: int) -> None:
        """The page count that looks of ``key`` made before this call wait for.

        Looks made after it are not sized by it: rooms and keys are used again, with other pages.
        """
        with self._lock:
            self._totals.pop(key, None)
            self._totals[key] = next(self._order), pages
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
        closing = False
        while not closing:
            limit = pause if self._under_way else (0.5 if self._unsized else None)
            if self._wake.wait(limit):
                self._wake.clear()
                pause = FIRST_PAUSE_S
            else:
                pause = min(pause * 2, LONGEST_PAUSE_S)
            closing = self._closing
            while self._arrived:
                self._under_way.append(self._arrived.popleft())
            self._under_way = [job for job in self._under_way if not self._advance(job, self._read)]
            self._unsized = [job for job in self._unsized if not self._advance(job, self._size)]
            if not self._under_way:
                self._idle.set()
                if self._arrived:  # came between the look and the set
                    self._idle.clear()

    def _advance(self, job: Job, step: Callable[[Job], bool]) -> bool:
        """Take a job one step on. Says whether it has left this list. Never raises."""
        try:
            try:
                if step(job):
                    return True
                if time.monotonic() < job.given_up_at:
                    return False
                self._lose(job.look, Drop.digest_late)
            except ScratchFull:
                self._lose(job.look, Drop.scratch_full)
            except Exception:
                self._lose(job.look, Drop.digest_failed)
                raise
        except Exception as error:
            self._fault(error)
        self._forget(job)
        return True

    def _read(self, job: Job) -> bool:
        if not all(launched.pending.ready() for launched in job.launched):
            return False
        job.reads = [Read(la.look, la.ordinals, la.physical, la.pending.result()) for la in job.launched]
        job.launched = ()
        owned = job.look.owned
        job.owned = owned() if callable(owned) else owned
        if not self._size(job):
            self._keep(job)
        return True

    def _keep(self, job: Job) -> None:
        """Keep a job's page digests until its page counts are known, if there is room for them."""
        size = sum(len(read.digests.data) for read in job.reads)
        if self._kept_bytes + size > KEPT_BYTES:
            self._lose(job.look, Drop.pending_full)
            return
        self._kept_bytes += size
        job.kept_bytes = size
        job.given_up_at = time.monotonic() + TOTAL_PATIENCE * self._patience_s
        self._unsized.append(job)

    def _forget(self, job: Job) -> None:
        self._kept_bytes -= job.kept_bytes
        job.kept_bytes = 0

    def _size(self, job: Job) -> bool:
        """Deliver the job's observation, if the page counts of all its components are known."""
        totals: dict[str, int] = {}
        for read in job.reads:
            if read.look.total_pages is None:
                name = read.look.pool.component
                found = self._total_of(job, name)
                if found is None:
                    return False
                totals[name] = found
        self._forget(job)
        self._deliver(observation(job.look, job.plan, job.reads, totals=totals, seq=job.seq, owned=job.owned))
        if self._journal is not None:
            for read in job.reads:
                self._journal.keep(entry_of(job.look, read))
        return True

    def _total_of(self, job: Job, component: str) -> int | None:
        look = job.look
        with self._lock:
            for key in look.keys or ("",):
                order, pages = self._totals.get((look.room, key, look.stage, component), (-1, 0))
                if order > job.order:
                    return pages
        return None


def entry_of(look: Look, read: Read) -> Entry:
    """What the journal keeps of a component that was read."""
    return Entry(
        room=look.room,
        keys=tuple(look.keys),
        stage=look.stage,
        look=look.look,
        component=read.look.pool.component,
        layers=tuple(read.digests.layers),
        runs=tuple(runs_of(read.ordinals)),
        digests=read.digests.data,
        order_free=read.digests.order_free,
    )
