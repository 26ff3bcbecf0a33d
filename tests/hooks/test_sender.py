"""The sender against a real socket: what arrives, once, whatever the collector does."""

from __future__ import annotations

import logging
import socket
import threading
import time
from collections.abc import Sequence
from contextlib import closing

import pytest
from support.recorder import Recorder, accept, recording

from pd_tracer_hooks.client import HttpTransport, Response, Transport
from pd_tracer_hooks.drops import Drop, Drops
from pd_tracer_hooks.outbox import Outbox, Queued
from pd_tracer_hooks.records import Records
from pd_tracer_hooks.sender import Reporter, Sender
from pd_tracer_hooks.settings import Settings
from pd_tracer_hooks.u64s import U64s
from pd_tracer_hooks.wire import (
    Answer,
    ComponentDigest,
    Coverage,
    Event,
    EventKind,
    Heartbeat,
    Observation,
    Problem,
    RecordKind,
    Refusal,
    Report,
    Side,
    Stage,
    Want,
    Worker,
    encode,
)

COMPONENT = ComponentDigest(
    name="kv",
    signature="0" * 16,
    pages=0,
    k=1,
    coverage=Coverage.ends,
    layers=[0],
    runs=[],
    sums=U64s.of([0, 0, 0]),
    cells=[0, 0, 0],
)
WORKER = Worker(id="w", boot="b", deployment="d", side=Side.decode, server="s")


def settings_for(url: str, **changes: object) -> Settings:
    fast = {"flush_ms": 5.0, "backoff_s": 0.01, "backoff_max_s": 0.05, "heartbeat_s": 60.0, "timeout_s": 2.0}
    return Settings(url=url, deployment="d", **(fast | changes))  # type: ignore[arg-type]


class Line:
    """A sender with its outbox, as an agent has them."""

    def __init__(self, settings: Settings, transport: Transport | None = None) -> None:
        self.wanted: list[Want] = []
        self.drops = Drops()
        self.outbox = Outbox(settings.queue, settings.queue_bytes, wake_at=settings.batch)
        self.faults: list[Exception] = []
        self.met = threading.Event()
        self.records = Records(self.outbox, self.drops)
        reporter = Reporter(
            worker=lambda: WORKER,
            heartbeat=Heartbeat,
            wanted=self._want,
            lost=self.records.lost,
            fault=self._fault,
        )
        transport = transport or HttpTransport(settings.url)
        self.sender = Sender(settings, self.outbox, self.drops, transport, reporter)

    def _want(self, wanted: Sequence[Want]) -> None:
        self.wanted.extend(wanted)

    def _fault(self, error: Exception) -> None:
        self.faults.append(error)
        self.met.set()

    def put(self, *numbers: int) -> None:
        for number in numbers:
            event = Event(kind=EventKind.opened, room=f"r{number}", seq=number, at=1.0)
            assert self.outbox.put(Queued(RecordKind.events, encode(event)))

    def close(self, seconds: float = 5.0) -> bool:
        return self.sender.close(time.monotonic() + seconds)


def rooms(recorder: Recorder) -> list[str]:
    return [event.room for event in recorder.events]


def test_records_arrive_in_order_over_one_kept_connection() -> None:
    with recording(Recorder()) as recorder:
        line = Line(settings_for(recorder.url, batch=10))
        line.sender.start()
        for start in range(0, 100, 20):
            line.put(*range(start, start + 20))
            recorder.wait(lambda start=start: len(recorder.events) >= start + 20)  # type: ignore[misc]
        assert line.close()
    assert rooms(recorder) == [f"r{n}" for n in range(100)]
    assert recorder.connections == 1
    assert all(len(report.events) <= 10 for report in recorder.reports)
    assert line.sender.sent == 100


def test_a_batch_waits_for_company_by_time() -> None:
    with recording(Recorder()) as recorder:
        line = Line(settings_for(recorder.url, flush_ms=200.0))
        line.sender.start()
        line.put(1, 2, 3)
        recorder.wait(lambda: len(recorder.events) == 3)
        assert line.close()
    assert [len(report.events) for report in recorder.reports if report.events] == [3]


def test_an_idle_worker_sends_heartbeats() -> None:
    with recording(Recorder()) as recorder:
        line = Line(settings_for(recorder.url, heartbeat_s=0.02))
        line.sender.start()
        recorder.wait(lambda: len(recorder.reports) >= 3)
        line.close()
    assert all(report.heartbeat is not None and not report.events for report in recorder.reports)


@pytest.mark.parametrize("status", [429, 500, 502, 503, 404, 204, 307])
def test_a_batch_is_repeated_under_the_same_id_until_it_is_taken(status: int) -> None:
    def reply(number: int, report: Report) -> tuple[int, bytes, dict[str, str]]:
        return (status, b"", {}) if number < 3 else accept(number, report)

    with recording(Recorder(reply)) as recorder:
        line = Line(settings_for(recorder.url))
        line.put(1, 2)
        line.sender.start()
        recorder.wait(lambda: len(recorder.reports) == 4)
        assert line.close()
    batches = [report for report in recorder.reports if report.events]
    assert len({report.batch for report in batches}) == 1
    assert all(report.events == batches[0].events for report in batches)
    assert line.drops.counts() == {}


def test_retry_after_is_honoured() -> None:
    times: list[float] = []

    def reply(number: int, report: Report) -> tuple[int, bytes, dict[str, str]]:
        times.append(time.monotonic())
        return (503, b"", {"Retry-After": "0.3"}) if number == 0 else accept(number, report)

    with recording(Recorder(reply)) as recorder:
        line = Line(settings_for(recorder.url))
        line.put(1)
        line.sender.start()
        recorder.wait(lambda: len(times) == 2)
        assert line.close()
    assert times[1] - times[0] >= 0.3


def test_what_is_refused_is_not_repeated_and_is_counted(caplog: pytest.LogCaptureFixture) -> None:
    problem = encode(Problem(error="deployment: too long", field="deployment", hint="shorten it"))
    with recording(Recorder(lambda *_: (422, problem, {}))) as recorder:
        line = Line(settings_for(recorder.url))
        with caplog.at_level(logging.WARNING, logger="pd_tracer"):
            line.put(1, 2)
            line.sender.start()
            recorder.wait(lambda: len(recorder.events) == 2)
            assert line.close()
    assert line.drops.counts() == {Drop.refused.value: 2}
    assert "deployment: too long (shorten it)" in caplog.text


def test_records_that_an_answer_refuses_are_counted() -> None:
    refusal = Refusal(kind=RecordKind.events, index=0, field="$.at", reason="in the future")
    answer = encode(Answer(accepted=1, refused=[refusal]))
    with recording(Recorder(lambda *_: (200, answer, {}))) as recorder:
        line = Line(settings_for(recorder.url))
        line.put(1, 2)
        line.sender.start()
        recorder.wait(lambda: len(recorder.events) == 2)
        assert line.close()
    assert line.drops.counts() == {Drop.refused.value: 1}
    assert line.sender.sent == 1


def test_too_large_is_halved_and_a_single_giant_is_dropped() -> None:
    def reply(number: int, report: Report) -> tuple[int, bytes, dict[str, str]]:
        giant = any(event.room == "r5" for event in report.events)
        return (413, b"", {}) if giant or len(report.events) > 2 else accept(number, report)

    with recording(Recorder(reply)) as recorder:
        line = Line(settings_for(recorder.url))
        line.put(*range(8))
        line.sender.start()
        taken = lambda: [e.room for r in recorder.reports if len(r.events) <= 2 for e in r.events]  # noqa: E731
        recorder.wait(lambda: set(taken()) >= {f"r{n}" for n in range(8)})
        assert line.close()
    assert line.drops.counts() == {Drop.too_large.value: 1}
    assert line.sender.sent == 7


def test_what_is_wanted_is_passed_on() -> None:
    answer = encode(Answer(accepted=1, wanted=[Want(kind="journal", room="r1")]))
    with recording(Recorder(lambda *_: (200, answer, {}))) as recorder:
        line = Line(settings_for(recorder.url))
        line.put(1)
        line.sender.start()
        recorder.wait(lambda: len(recorder.events) == 1)
        assert line.close()
    assert line.wanted[0] == Want(kind="journal", room="r1")


def test_a_collector_that_goes_away_and_comes_back_gets_everything_once() -> None:
    recorder = Recorder()
    with recording(recorder) as first:
        line = Line(settings_for(first.url, batch=7))
        line.sender.start()
        line.put(*range(20))
        recorder.wait(lambda: len(recorder.events) == 20)
        port = first.port
    line.put(*range(20, 60))
    time.sleep(0.1)  # it tries, and nobody is there
    with recording(recorder, port):
        recorder.wait(lambda: len(recorder.events) >= 60)
        assert line.close()
    assert rooms(recorder) == [f"r{n}" for n in range(60)]
    assert line.drops.counts() == {}


def test_close_keeps_its_deadline_when_the_collector_hangs() -> None:
    with closing(socket.create_server(("127.0.0.1", 0))) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        line = Line(settings_for(url, timeout_s=0.4))
        line.put(1, 2, 3)
        line.sender.start()
        started = time.monotonic()
        assert not line.close(0.3)
        assert time.monotonic() - started < 2.0
    assert line.drops.counts() == {Drop.shutdown.value: 3}
    _join("pd-tracer-sender")


def test_nobody_there_at_all() -> None:
    with closing(socket.create_server(("127.0.0.1", 0))) as taken:
        port = taken.getsockname()[1]
    line = Line(settings_for(f"http://127.0.0.1:{port}"))
    line.put(1)
    line.sender.start()
    assert not line.close(0.2)
    assert line.drops.counts() == {Drop.shutdown.value: 1}


def test_an_answer_that_never_comes_is_asked_for_again() -> None:
    too_late = threading.Event()

    def reply(number: int, report: Report) -> tuple[int, bytes, dict[str, str]]:
        if number == 0:
            too_late.wait(5)
        return accept(number, report)

    with recording(Recorder(reply)) as recorder:
        line = Line(settings_for(recorder.url, timeout_s=0.1))
        line.put(1, 2)
        line.sender.start()
        recorder.wait(lambda: len(recorder.reports) == 2)
        assert line.close()
        too_late.set()
    first, second = recorder.reports
    assert (first.batch, first.events) == (second.batch, second.events)
    assert line.sender.sent == 2


@pytest.mark.parametrize("body", [b"", b"<html>", b"\x81\xa4wire\xa1\xff"])
def test_an_answer_from_somebody_else_counts_for_nothing(body: bytes) -> None:
    def reply(number: int, report: Report) -> tuple[int, bytes, dict[str, str]]:
        return (200, body, {}) if number == 0 else accept(number, report)

    with recording(Recorder(reply)) as recorder:
        line = Line(settings_for(recorder.url))
        line.put(1)
        line.sender.start()
        recorder.wait(lambda: len(recorder.reports) == 2)
        assert line.close()
    assert rooms(recorder) == ["r1", "r1"]
    assert (line.sender.sent, line.drops.counts()) == (1, {})


def test_a_room_whose_observation_is_refused_is_called_dropped() -> None:
    def reply(number: int, report: Report) -> tuple[int, bytes, dict[str, str]]:
        refused = [
            Refusal(kind=RecordKind.observations, index=at, field="$.at", reason="no")
            for at, seen in enumerate(report.observations)
            if seen.room == "bad"
        ]
        # An index that was not sent must hurt nobody.
        refused.append(Refusal(kind=RecordKind.details, index=7, field="", reason=""))
        return 200, encode(Answer(refused=refused)), {}

    with recording(Recorder(reply)) as recorder:
        line = Line(settings_for(recorder.url))
        line.put(1)
        for number, room in enumerate(["good", "bad", "fine"], 2):
            seen = Observation(room=room, stage=Stage.send, seq=number, at=1.0, components=[COMPONENT])
            assert line.outbox.put(Queued(RecordKind.observations, encode(seen)))
        line.sender.start()
        recorder.wait(lambda: any(event.kind is EventKind.dropped for event in recorder.events))
        assert line.close()
    (dropped,) = [event for event in recorder.events if event.kind is EventKind.dropped]
    assert (dropped.room, dropped.reason) == ("bad", "refused")
    # Three of the first four, and the event.
    assert (line.sender.sent, line.drops.counts()) == (4, {Drop.refused.value: 1})


class Odd:
    """A transport that fails as none should, the first time."""

    def __init__(self) -> None:
        self.bodies: list[bytes] = []
        self.closed = False

    def send(self, body: bytes, timeout: float) -> Response:
        self.bodies.append(body)
        if len(self.bodies) == 1:
            raise RuntimeError("odd")
        return Response(200, encode(Answer()))

    def close(self) -> None:
        self.closed = True


def test_a_fault_of_the_sender_s_own_costs_a_batch_and_not_the_thread() -> None:
    odd = Odd()
    line = Line(settings_for("http://unused"), odd)
    line.put(1, 2)
    line.sender.start()
    assert line.met.wait(5)
    line.put(3)
    assert line.close()
    assert odd.closed
    assert [str(fault) for fault in line.faults] == ["odd"]
    assert (line.sender.sent, line.drops.counts()) == (1, {Drop.fault.value: 2})


class Hanging(Odd):
    """Takes its time, and then delivers after all."""

    def __init__(self) -> None:
        super().__init__()
        self.asked, self.release = threading.Event(), threading.Event()

    def send(self, body: bytes, timeout: float) -> Response:
        self.asked.set()
        self.release.wait(10)
        return Response(200, encode(Answer()))


def test_what_was_counted_as_lost_at_the_close_is_not_counted_as_sent_later() -> None:
    hanging = Hanging()
    line = Line(settings_for("http://unused", batch=2), hanging)
    line.put(1, 2, 3)
    line.sender.start()
    assert hanging.asked.wait(5)
    assert not line.close(0.05)
    hanging.release.set()
    _join("pd-tracer-sender")
    assert (line.sender.sent, line.drops.counts()) == (0, {Drop.shutdown.value: 3})


def test_halves_that_were_settled_are_not_lost_at_the_close() -> None:
    def reply(number: int, report: Report) -> tuple[int, bytes, dict[str, str]]:
        if len(report.events) > 2:
            return 413, b"", {}
        return accept(number, report) if report.events[0].room == "r0" else (503, b"", {})

    with recording(Recorder(reply)) as recorder:
        line = Line(settings_for(recorder.url))
        line.put(0, 1, 2, 3)
        line.sender.start()
        recorder.wait(lambda: len(recorder.reports) >= 3)
        assert not line.close(0.1)
    assert (line.sender.sent, line.drops.counts()) == (2, {Drop.shutdown.value: 2})


def _join(name: str) -> None:
    for thread in threading.enumerate():
        if thread.name == name:
            thread.join(5)
