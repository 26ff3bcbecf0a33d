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
    """What a sender says of its worker beside the records; asked anew for each post."""

    worker: Callable[[], Worker]
    heartbeat: Callable[[], Heartbeat]
    wanted: Callable[[Sequence[Want]], None]


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
        self._closing = threading.Event()
        self._deadline = float("inf")
        self._thread: threading.Thread | None = None
        self._told: set[str] = set()
        self._away_since: float | None = None
        self.sent = 0
        #: Records taken from the outbox whose fate is open.
        self._under_way = 0
        #: Records given up because there was no time left.
        self._given_up = 0

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
        lost = self._outbox.discard() + self._under_way + self._given_up
        if lost:
            self._drops.add(Drop.shutdown, lost)
            _log.warning("pd-tracer: %d records were not delivered before the end", lost)
        return lost == 0

    def _run(self) -> None:
        heartbeat_due = time.monotonic()
        while True:
            self._outbox.wake.wait(self._settings.flush_ms / 1000)
            self._outbox.wake.clear()
            while items := self._outbox.take(self._settings.batch, self._settings.batch_bytes):
                self._under_way = len(items)
                self._deliver(items)
                self._under_way = 0
                heartbeat_due = time.monotonic() + self._settings.heartbeat_s
                if self._closing.is_set() and time.monotonic() >= self._deadline:
                    break
            if self._closing.is_set():
                self._transport.close()
                return
            if time.monotonic() >= heartbeat_due:
                heartbeat_due = time.monotonic() + self._settings.heartbeat_s
                self._post(self._encode([], ""))

    def _deliver(self, items: list[Queued]) -> None:
        """Post ``items`` until their fate is settled. The same records go under the same batch id."""
        batch = uuid.uuid4().hex
        pause = self._settings.backoff_s
        while True:
            fate, retry_after = self._post(self._encode(items, batch), len(items))
            if fate is _Fate.done:
                return
            if fate is _Fate.too_large:
                self._halve(items)
                return
            wait = pause * random.uniform(0.5, 1.0)  # noqa: S311 - jitter, no secret
            if retry_after is not None:
                wait = min(retry_after, MAX_RETRY_AFTER_S) + wait * 0.1
            pause = min(pause * 2, self._settings.backoff_max_s)
            if self._wait(wait):
                self._given_up += len(items)
                return

    def _wait(self, seconds: float) -> bool:
        """Pause before a repetition. Says whether there is no time left for one."""
        if not self._closing.is_set():
            self._closing.wait(seconds)
            return False
        left = self._deadline - time.monotonic()
        if left <= 0:
            return True
        time.sleep(min(seconds, left, 0.1))
        return False

    def _halve(self, items: list[Queued]) -> None:
        if len(items) <= 1:
            self._drops.add(Drop.too_large, len(items))
            self._tell(f"a record of {sum(len(i.body) for i in items)} bytes is larger than it takes")
            return
        for half in split_halves(items):
            self._deliver(half)

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

    def _post(self, body: bytes, records: int = 0) -> tuple[_Fate, float | None]:
        timeout = self._settings.timeout_s
        if self._closing.is_set():
            timeout = min(timeout, max(0.05, self._deadline - time.monotonic()))
        try:
            response = self._transport.send(body, timeout)
        except OSError as error:
            self._away(f"{type(error).__name__}: {error}")
            return _Fate.again, None
        if response.status == 200:
            self._back()
            self._read_answer(response, records)
            return _Fate.done, None
        if response.status == _TOO_LARGE:
            return _Fate.too_large, None
        if response.status in _FINAL:
            self._back()
            self._refused(response, records)
            return _Fate.done, None
        self._away(f"it answered {response.status}")
        return _Fate.again, response.retry_after

    def _read_answer(self, response: Response, records: int) -> None:
        try:
            answer = _answers.decode(response.body)
        except msgspec.MsgspecError as error:
            self._tell(f"an answer was not understood: {error}")
            return
        refused = len(answer.refused)
        self.sent += records - refused
        if refused:
            self._drops.add(Drop.refused, refused)
            for refusal in answer.refused[:10]:
                self._tell(f"a record was refused: {refusal.field}: {refusal.reason}")
        if answer.wanted:
            self._reporter.wanted(answer.wanted)

    def _refused(self, response: Response, records: int) -> None:
        if records:
            self._drops.add(Drop.refused, records)
        try:
            problem = _problems.decode(response.body)
            reason = f"{problem.error} ({problem.hint})" if problem.hint else problem.error
        except msgspec.MsgspecError:
            reason = _first_refusal(response)
        self._tell(f"a batch was refused with {response.status}: {reason}")

    def _tell(self, what: str) -> None:
        """Log something once: a collector that says no may say it for every record."""
        if what not in self._told and len(self._told) < 100:
            self._told.add(what)
            _log.warning("pd-tracer's collector: %s", what)

    def _away(self, why: str) -> None:
        if self._away_since is None:
            self._away_since = time.monotonic()
            _log.warning("pd-tracer's collector at %s is away (%s); records wait", self._settings.url, why)

    def _back(self) -> None:
        if self._away_since is not None:
            away = time.monotonic() - self._away_since
            self._away_since = None
            _log.warning("pd-tracer's collector is back after %.1f s", away)


def _first_refusal(response: Response) -> str:
    try:
        refusal = _answers.decode(response.body).refused[0]
    except (msgspec.MsgspecError, IndexError):
        return repr(response.body[:200])
    return f"{refusal.field}: {refusal.reason}"
