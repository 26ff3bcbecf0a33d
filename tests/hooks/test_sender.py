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

from pd_tracer_hooks.client import HttpTransport
from pd_tracer_hooks.drops import Drop, Drops
from pd_tracer_hooks.outbox import Outbox, Queued
from pd_tracer_hooks.records import Records
from pd_tracer_hooks.sender import Reporter, Sender
from pd_tracer_hooks.settings import Settings
from pd_tracer_hooks.wire import (
    Answer,
    Event,
    EventKind,
    Heartbeat,
    Problem,
    RecordKind,
    Refusal,
    Report,
    Side,
    Want,
    Worker,
    encode,
)

WORKER = Worker(id="w", boot="b", deployment="d", side=Side.decode, server="s")


def settings_for(url: str, **changes: object) -> Settings:
    fast = {"flush_ms": 5.0, "backoff_s": 0.01, "backoff_max_s": 0.05, "heartbeat_s": 60.0, "timeout_s": 2.0}
    return Settings(url=url, deployment="d", **(fast | changes))  # type: ignore[arg-type]


class Line:
    """A sender with its outbox, as an agent has them."""

    def __init__(self, settings: Settings) -> None:
        self.wanted: list[Want] = []
        self.drops = Drops()
        self.outbox = Outbox(settings.queue, settings.queue_bytes, wake_at=settings.batch)
        self.faults: list[Exception] = []
        self.records = Records(self.outbox, self.drops)
        reporter = Reporter(
            worker=lambda: WORKER,
            heartbeat=Heartbeat,
            wanted=self._want,
            lost=self.records.lost,
            fault=self.faults.append,
        )
        self.sender = Sender(settings, self.outbox, self.drops, HttpTransport(settings.url), reporter)

    def _want(self, wanted: Sequence[Want]) -> None:
        self.wanted.extend(wanted)

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


@pytest.mark.parametrize("status", [429, 500, 502, 503, 404])
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


@pytest.mark.parametrize("url", ["ftp://x", "http://", "collector"])
def test_an_url_that_cannot_be_posted_to(url: str) -> None:
    with pytest.raises(ValueError, match="http://HOST:PORT"):
        HttpTransport(url)


def _join(name: str) -> None:
    for thread in threading.enumerate():
        if thread.name == name:
            thread.join(5)
