"""The one writer: a thread through which everything reaches the database.

Whatever queued during the last commit goes into the next one, so batches share commits without anybody
waiting for company. A batch's future is done only after its commit.
"""

from __future__ import annotations

import random
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future

import structlog
from sqlalchemy import Connection

from tracer.metrics.counters import Counters
from tracer.store.batch import Batch, Outcome, Recheck
from tracer.store.codec import RoomRef
from tracer.store.database import Database
from tracer.store.failures import Failure, Refused, Unavailable, away_reason, classify, driver_error
from tracer.store.flush import Flushed, Flusher, Job

log = structlog.get_logger(__name__)

#: Records and rooms in one transaction at most (but always at least one batch).
MAX_WEIGHT = 10_000
#: A transaction that another one was in the way of is tried this often.
TRIES = 6
#: ... and no more once this much time has passed, so that a worker hears in time that it must wait.
PATIENCE_S = 10.0
_FIRST_PAUSE_S = 0.01

Answer = Future[Outcome]
_Waiting = tuple[Job, Answer]


class Writer:
    """Owns the writing connection and the thread that uses it."""

    def __init__(
        self,
        database: Database,
        flusher: Callable[[Connection], Flusher],
        counters: Counters,
        *,
        queue_batches: int,
        queue_bytes: int,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._database = database
        self._make_flusher = flusher
        self._counters = counters
        self._queue_batches = queue_batches
        self._queue_bytes = queue_bytes
        self._clock = clock
        self._ready = threading.Condition()
        self._queue: deque[_Waiting] = deque()
        self._queued_bytes = 0
        self._stopping = False
        self._connection: Connection | None = None
        self._flusher: Flusher | None = None
        self._thread = threading.Thread(target=self._run, name="pd-tracer-writer", daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    @property
    def alive(self) -> bool:
        """Whether the thread runs and takes batches."""
        return self._thread.is_alive() and not self._stopping

    @property
    def queued(self) -> int:
        """Batches that wait."""
        return len(self._queue)

    def stop(self, timeout: float | None = None) -> bool:
        """Take nothing more, write what is queued, close the connection. Returns whether it was in time."""
        with self._ready:
            self._stopping = True
            self._ready.notify()
        if self._thread.ident is not None:
            self._thread.join(timeout)
        return not self._thread.is_alive()

    def submit(self, batch: Batch) -> Answer:
        """Queue a batch. Its future ends after the commit, or with Unavailable or Refused.

        Raises :class:`Unavailable` when the queue is full or the writer is stopping.
        """
        with self._ready:
            full = len(self._queue) >= self._queue_batches
            if full or (self._queue and self._queued_bytes + batch.size > self._queue_bytes):
                raise Unavailable("the queue is full: the database is slower than what comes in")
            return self._put(batch)

    def recheck(self, refs: Sequence[RoomRef]) -> Answer:
        """Queue rooms to be judged again. Raises :class:`Unavailable` when the writer is stopping."""
        with self._ready:
            return self._put(Recheck(refs))

    def _put(self, job: Job) -> Answer:
        if self._stopping:
            raise Unavailable("the collector is stopping")
        answer = Answer()
        self._queue.append((job, answer))
        self._queued_bytes += job.size
        self._counters.queue.set(len(self._queue))
        self._ready.notify()
        return answer

    def _run(self) -> None:
        while True:
            with self._ready:
                self._ready.wait_for(lambda: self._queue or self._stopping)
                if not self._queue:
                    break
                jobs = self._take()
            if not jobs:
                continue
            try:
                self._write(jobs)
            except Exception as error:  # nothing may end the thread
                log.exception("writer failed")
                self._fail(jobs, Unavailable(f"internal fault: {type(error).__name__}"))
        self._disconnect()

    def _take(self) -> list[_Waiting]:
        taken: list[_Waiting] = []
        weight = 0
        while self._queue and (not taken or weight + self._queue[0][0].weight <= MAX_WEIGHT):
            job, answer = self._queue.popleft()
            self._queued_bytes -= job.size
            # False: whoever posted it has gone away, and nothing of it was written yet.
            if answer.set_running_or_notify_cancel():
                taken.append((job, answer))
                weight += job.weight
        self._counters.queue.set(len(self._queue))
        return taken

    def _write(self, jobs: list[_Waiting]) -> None:
        """Write jobs together; if something in them is bad, one by one, so that the others are kept."""
        try:
            self._commit(jobs)
        except Unavailable as error:
            self._fail(jobs, error)
        except Refused as error:
            if len(jobs) == 1:
                self._fail(jobs, error)
                return
            log.warning("transaction refused, writing its batches one by one", batches=len(jobs))
            for job in jobs:
                self._write([job])

    def _commit(self, jobs: list[_Waiting]) -> None:
        """Commit jobs and answer them. Raises :class:`Unavailable` or :class:`Refused`."""
        first = time.monotonic()
        for attempt in range(TRIES):
            started = time.perf_counter()
            try:
                flushed = self._flush([job for job, _ in jobs])
            except Exception as error:
                cause = driver_error(error)
                failure = classify(error)
                in_time = attempt + 1 < TRIES and time.monotonic() < first + PATIENCE_S
                if failure is Failure.retry and in_time:
                    time.sleep(_FIRST_PAUSE_S * 2**attempt * (0.5 + random.random()))  # noqa: S311
                    continue
                if failure is Failure.data:
                    log.exception("transaction refused", batches=len(jobs))
                    raise Refused(f"{type(cause).__name__}: {cause}") from error
                self._disconnect()
                reason = away_reason(error)
                log.warning(reason, error=str(cause))
                raise Unavailable(reason) from error
            self._counters.flush.observe(time.perf_counter() - started)
            self._counters.add(flushed.tally)
            self._counters.batches.inc(sum(isinstance(job, Batch) for job, _ in jobs))
            for (_, answer), outcome in zip(jobs, flushed.outcomes, strict=True):
                answer.set_result(outcome)
            self._follow_up(flushed)
            return

    def _flush(self, jobs: list[Job]) -> Flushed:
        if self._connection is None:
            self._connection = self._database.connect_writer()
        if self._flusher is None:
            self._flusher = self._make_flusher(self._connection)
        return self._flusher.flush(self._connection, jobs, self._clock())

    def _follow_up(self, flushed: Flushed) -> None:
        if flushed.recheck:
            with self._ready:
                if not self._stopping:
                    self._put(Recheck(flushed.recheck))

    def _disconnect(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            try:
                connection.invalidate()
                connection.close()
            except Exception:
                log.debug("closing the writer's connection failed", exc_info=True)

    @staticmethod
    def _fail(jobs: Sequence[_Waiting], error: Exception) -> None:
        for _, answer in jobs:
            if not answer.done():
                answer.set_exception(error)
