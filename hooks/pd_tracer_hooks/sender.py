"""The thread that takes records from the outbox and posts them until they are taken."""

from __future__ import annotations

import logging
import random
import threading
import time
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum

import msgspec

from pd_tracer_hooks.client import Response, Transport
from pd_tracer_hooks.drops import Drop, Drops
from pd_tracer_hooks.notices import Notices
from pd_tracer_hooks.outbox import Outbox, Queued, split_halves
from pd_tracer_hooks.settings import Settings
from pd_tracer_hooks.version import WIRE_VERSION
from pd_tracer_hooks.wire import Answer, Heartbeat, Problem, RecordKind, Want, Worker, decoder, encode

_log = logging.getLogger("pd_tracer")
_answers, _problems = decoder(Answer), decoder(Problem)

#: A collector's Retry-After counts up to this many seconds.
MAX_RETRY_AFTER_S = 60.0
#: Answers that end a batch: repeating it would not help.
_FINAL = {400, 415, 422}
_TOO_LARGE = 413


class _Batch(msgspec.Struct, omit_defaults=True):
    """A :class:`~pd_tracer_hooks.wire.Report` whose records are encoded already."""

    wire: str
    worker: Worker
    batch: str
    sent_at: float
    observations: list[msgspec.Raw] = []
    events: list[msgspec.Raw] = []
    manifests: list[msgspec.Raw] = []
    details: list[msgspec.Raw] = []
    heartbeat: Heartbeat | None = None
    drops: dict[str, int] = {}


class _Fate(Enum):
    done = "done"
    again = "again"
    too_large = "too_large"


@dataclass(frozen=True)
class Reporter:
    """What a sender says of its worker beside the records, asked anew for each post, and whom it tells."""

    worker: Callable[[], Worker]
    heartbeat: Callable[[], Heartbeat]
    wanted: Callable[[Sequence[Want]], None]
    #: A record that the collector does not take; to be counted.
    lost: Callable[[Queued, Drop], None]
    #: The sender met a fault of its own, and goes on.
    fault: Callable[[Exception], None]


class Sender:
    """Posts batches by count, bytes and time; repeats one until it is taken, refused or too late."""

    def __init__(
        self,
        settings: Settings,
        outbox: Outbox,
        drops: Drops,
        transport: Transport,
        reporter: Reporter,
    ) -> None:
        self._settings, self._outbox, self._drops = settings, outbox, drops
        self._transport, self._reporter = transport, reporter
        self._notices = Notices(settings.url)
        self._closing = threading.Event()
        self._deadline = float("inf")
        self._thread: threading.Thread | None = None
        self._heartbeat_due = time.monotonic()
        self._lock = threading.Lock()
        #: Records taken from the outbox whose fate is open.
        self._under_way: list[Queued] = []
        #: Closed with records under way: they are counted as lost, and nothing is counted any more.
        self._abandoned = False
        self.sent = 0

    def start(self) -> None:
        """Start the thread. A daemon: a host that ends is never held up by it."""
        self._thread = threading.Thread(target=self._run, name="pd-tracer-sender", daemon=True)
        self._thread.start()

    def close(self, deadline: float) -> bool:
        """Deliver what is queued until ``deadline`` (monotonic). Says whether everything went out."""
        self._deadline = deadline
        self._closing.set()
        self._outbox.wake.set()
        if self._thread is not None:
            # A post under way ends within its own timeout, which the deadline shortens from now on.
            self._thread.join(max(0.0, deadline - time.monotonic()) + 0.05)
        with self._lock:
            self._abandoned = True
            lost = len(self._under_way) + self._outbox.discard()
        if lost:
            self._drops.add(Drop.shutdown, lost)
            _log.warning("pd-tracer: %d records were not delivered before the end", lost)
        return lost == 0

    def _run(self) -> None:
        while not self._closing.is_set() or time.monotonic() < self._deadline:
            closing = self._closing.is_set()
            try:
                if not closing:
                    self._outbox.wake.wait(self._settings.flush_ms / 1000)
                    self._outbox.wake.clear()
                if not self._flush() or closing:
                    break
                self._send_heartbeat_if_due()
            except Exception as error:
                # It is not known what went wrong, so what was under way is not tried again.
                lost = len(self._under_way)
                if lost and self._settle(list(self._under_way)):
                    self._drops.add(Drop.fault, lost)
                self._reporter.fault(error)
                self._closing.wait(self._settings.backoff_s)
        self._transport.close()

    def _flush(self) -> bool:
        """Deliver all that waits. Says whether there was time for it."""
        while items := self._outbox.take(self._settings.batch, self._settings.batch_bytes):
            with self._lock:
                self._under_way = items
            if not self._deliver(items):
                return False
            self._heartbeat_due = time.monotonic() + self._settings.heartbeat_s
        return True

    def _send_heartbeat_if_due(self) -> None:
        now = time.monotonic()
        if now >= self._heartbeat_due:
            self._heartbeat_due = now + self._settings.heartbeat_s
            self._post([], "")

    def _deliver(self, items: list[Queued]) -> bool:
        """Post ``items`` until their fate is settled, always under the same batch id. False: out of time."""
        batch = uuid.uuid4().hex
        pause = self._settings.backoff_s
        while True:
            fate, retry_after = self._post(items, batch)
            if fate is _Fate.done:
                return True
            if fate is _Fate.too_large:
                return self._halve(items)
            wait = pause * random.uniform(0.5, 1.0)  # noqa: S311 - jitter, no secret
            if retry_after is not None:
                wait = min(retry_after, MAX_RETRY_AFTER_S) + wait * 0.1
            pause = min(pause * 2, self._settings.backoff_max_s)
            if not self._wait(wait):
                return False

    def _wait(self, seconds: float) -> bool:
        """Pause before a repetition. Says whether there is time for one."""
        if not self._closing.is_set():
            self._closing.wait(seconds)
            return True
        left = self._deadline - time.monotonic()
        if left <= 0:
            return False
        time.sleep(min(seconds, left, 0.1))
        return True

    def _halve(self, items: list[Queued]) -> bool:
        if len(items) == 1:
            self._notices.once(f"a record of {len(items[0].body)} bytes is larger than it takes")
            if self._settle(items):
                self._reporter.lost(items[0], Drop.too_large)
            return True
        return all(self._deliver(half) for half in split_halves(items))

    def _settle(self, items: Sequence[Queued], sent: int = 0) -> bool:
        """The fate of ``items`` is known. False: too late, they were counted as lost at the close."""
        settled = set(map(id, items))
        with self._lock:
            if self._abandoned:
                return False
            self._under_way = [item for item in self._under_way if id(item) not in settled]
            self.sent += sent
        return True

    def _encode(self, items: Sequence[Queued], batch: str) -> bytes:
        lists: dict[RecordKind, list[msgspec.Raw]] = {kind: [] for kind in RecordKind}
        for item in items:
            lists[item.kind].append(msgspec.Raw(item.body))
        return encode(
            _Batch(
                wire=WIRE_VERSION,
                worker=self._reporter.worker(),
                batch=batch,
                sent_at=time.time(),
                observations=lists[RecordKind.observations],
                events=lists[RecordKind.events],
                manifests=lists[RecordKind.manifests],
                details=lists[RecordKind.details],
                heartbeat=self._reporter.heartbeat(),
                drops=self._drops.counts(),
            )
        )

    def _post(self, items: Sequence[Queued], batch: str) -> tuple[_Fate, float | None]:
        timeout = self._settings.timeout_s
        if self._closing.is_set():
            timeout = min(timeout, max(0.05, self._deadline - time.monotonic()))
        try:
            response = self._transport.send(self._encode(items, batch), timeout)
        except OSError as error:
            self._notices.away(f"{type(error).__name__}: {error}")
            return _Fate.again, None
        if response.status == 200:
            return self._taken(response, items), response.retry_after
        if response.status == _TOO_LARGE:
            self._notices.back()
            return _Fate.too_large, None
        if response.status in _FINAL:
            self._notices.back()
            self._notices.once(f"a batch was refused with {response.status}: {_why(response)}")
            # Counted, and no word of each room: nothing of this worker's is taken.
            if items and self._settle(items):
                self._drops.add(Drop.refused, len(items))
            return _Fate.done, None
        self._notices.away(f"it answered {response.status}")
        return _Fate.again, response.retry_after

    def _taken(self, response: Response, items: Sequence[Queued]) -> _Fate:
        try:
            answer = _answers.decode(response.body)
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            # Whoever answered, it was no collector that says what it committed.
            self._notices.away(f"its answer was not understood: {error}")
            return _Fate.again
        self._notices.back()
        places: dict[RecordKind, list[int]] = {kind: [] for kind in RecordKind}
        for at, item in enumerate(items):
            places[item.kind].append(at)
        refused = {
            places[refusal.kind][refusal.index]
            for refusal in answer.refused
            if 0 <= refusal.index < len(places[refusal.kind])
        }
        for refusal in answer.refused:
            self._notices.once(f"a record was refused: {refusal.field}: {refusal.reason}")
        if self._settle(items, len(items) - len(refused)):
            for at in sorted(refused):
                self._reporter.lost(items[at], Drop.refused)
        if answer.wanted:
            self._reporter.wanted(answer.wanted)
        return _Fate.done


def _why(response: Response) -> str:
    try:
        problem = _problems.decode(response.body)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        pass
    else:
        return f"{problem.error} ({problem.hint})" if problem.hint else str(problem.error)
    try:
        refusal = _answers.decode(response.body).refused[0]
    except (msgspec.MsgspecError, UnicodeDecodeError, IndexError):
        return repr(response.body[:200])
    return f"{refusal.field}: {refusal.reason}"
