"""What an agent does while its collector is away, hangs or is slow."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Iterator

import pytest
from support.agents import Slow, look, make, settings_for
from support.recorder import Recorder, accept, recording

from pd_tracer_hooks.drops import Drop
from pd_tracer_hooks.wire import EventKind, Report


@pytest.fixture
def recorder() -> Iterator[Recorder]:
    with recording(Recorder()) as running:
        yield running


def test_a_collector_that_is_away_costs_the_worker_nothing() -> None:
    recorder = Recorder()
    with recording(recorder) as running:
        agent = make(settings_for(running))
        agent.observe(look("before"))
        recorder.wait(lambda: len(recorder.observations) == 1)
        port = running.port
    slowest = 0.0
    for number in range(300):
        started = time.perf_counter()
        agent.observe(look(f"r{number}"))
        slowest = max(slowest, time.perf_counter() - started)
    assert slowest < 1.0, "a call waited for a collector that is not there"
    with recording(recorder, port):
        recorder.wait(lambda: len(recorder.observations) == 301)
        assert agent.close(5)
    rooms = [seen.room for seen in recorder.observations]
    assert sorted(rooms) == sorted(["before", *(f"r{n}" for n in range(300))])
    assert agent.stats.drops == {}


def test_what_the_queue_held_arrives_after_an_outage_and_what_it_did_not_is_told() -> None:
    recorder = Recorder()
    with recording(recorder) as running:
        agent = make(settings_for(running, queue=40, batch=10))
        agent.event(EventKind.opened, "before")
        recorder.wait(lambda: len(recorder.events) == 1)
        port = running.port
    for number in range(100):
        agent.event(EventKind.opened, f"r{number}")
    lost = agent.stats.drops[Drop.queue_full.value]
    assert 50 <= lost <= 60, "the queue holds 40, and 10 more may be under way"
    with recording(recorder, port):
        recorder.wait(lambda: len(recorder.events) >= 101)
        assert agent.close(5)
    rooms = {kind: [e.room for e in recorder.events if e.kind is kind] for kind in EventKind}
    arrived = rooms[EventKind.opened][1:]
    assert len(arrived) == len(set(arrived)) == 100 - lost
    assert sorted(arrived + rooms[EventKind.dropped]) == sorted(f"r{n}" for n in range(100))
    assert arrived[:40] == [f"r{n}" for n in range(40)], "the oldest are kept, in their order"
    assert agent.stats.drops == {Drop.queue_full.value: lost}
    assert agent.stats.sent == 101


def test_a_collector_that_hangs_holds_up_neither_the_engine_nor_the_end() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        agent = make(settings_for(f"http://127.0.0.1:{silent.getsockname()[1]}", timeout_s=60.0))
        connection, _ = _accept_after(silent, lambda: agent.observe(look("first")))
        slowest = 0.0
        for number in range(100):
            started = time.perf_counter()
            agent.observe(look(f"r{number}"))
            slowest = max(slowest, time.perf_counter() - started)
        assert slowest < 1.0
        started = time.monotonic()
        assert not agent.close(0.3)
        assert time.monotonic() - started < 2.0
        connection.close()
    assert agent.stats.drops == {Drop.shutdown.value: 101}
    _join_threads()


def _accept_after(server: socket.socket, act: Callable[[], None]) -> tuple[socket.socket, object]:
    act()
    server.settimeout(10)
    return server.accept()


def _join_threads() -> None:
    for thread in threading.enumerate():
        if thread.name.startswith("pd-tracer-"):
            thread.join(5)


def test_a_digest_that_hangs_leaves_the_sender_its_time_at_the_close(recorder: Recorder) -> None:
    def slowly(number: int, report: Report) -> tuple[int, bytes, dict[str, str]]:
        time.sleep(0.2)
        return accept(number, report)

    recorder.reply = slowly
    agent = make(settings_for(recorder, flush_ms=60_000.0), Slow())
    agent.observe(look("hangs"))
    for number in range(10):
        agent.event(EventKind.opened, f"r{number}")
    assert agent.close(1.0)
    assert [e.room for e in recorder.events if e.kind is EventKind.opened] == [f"r{n}" for n in range(10)]
    assert [(e.room, e.reason) for e in recorder.events if e.kind is EventKind.dropped] == [
        ("hangs", "shutdown")
    ]
