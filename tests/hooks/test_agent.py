"""An agent from the engine's call to what arrives at a collector, and what it does when things go wrong."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.recorder import Recorder, recording

from pd_tracer_hooks.agent import Agent
from pd_tracer_hooks.capture import ComponentLook, Look
from pd_tracer_hooks.digest.backend import DigestRequest, PageDigests, Pool, ScratchFull
from pd_tracer_hooks.digest.cpu import CpuBackend
from pd_tracer_hooks.drops import Drop
from pd_tracer_hooks.identity import describe_worker
from pd_tracer_hooks.layout import PageLayout
from pd_tracer_hooks.settings import Settings
from pd_tracer_hooks.wire import EventKind, HooksState, Owned, Side, Stage

POOL = Pool("kv", PageLayout.plain(4, 16), {layer: bytes(range(64)) * 32 for layer in (0, 1)})


def settings_for(recorder: Recorder | str, **changes: object) -> Settings:
    url = recorder if isinstance(recorder, str) else recorder.url
    fast = {"flush_ms": 5.0, "backoff_s": 0.01, "backoff_max_s": 0.05, "server": "P0"}
    return Settings(url=url, deployment="d", **(fast | changes))  # type: ignore[arg-type]


def make(settings: Settings, backend: object = None) -> Agent:
    return Agent(
        settings,
        describe_worker(settings, side=Side.prefill),
        backend=backend or CpuBackend(),  # type: ignore[arg-type]
    )


def look(room: str = "r", **changes: object) -> Look:
    component = ComponentLook(pool=POOL, pages=[3, 4, 5], total_pages=3)
    values = {"room": room, "keys": ["0" * 16], "stage": Stage.send, "components": [component]}
    return Look(**(values | changes))  # type: ignore[arg-type]


@pytest.fixture
def recorder() -> Iterator[Recorder]:
    with recording(Recorder()) as running:
        yield running


class Slow:
    """A backend whose digests are done when the test says so, as a device's are."""

    name = "slow"

    def __init__(self) -> None:
        self.done = threading.Event()
        self.launched: list[DigestRequest] = []

    def prepare(self, pool: Pool) -> None:
        CpuBackend().prepare(pool)

    def launch(self, request: DigestRequest) -> Slow.Pending:
        self.launched.append(request)
        return Slow.Pending(self, request)

    class Pending:
        def __init__(self, backend: Slow, request: DigestRequest) -> None:
            self._backend, self._request = backend, request

        def ready(self) -> bool:
            return self._backend.done.is_set()

        def result(self) -> PageDigests:
            return CpuBackend().launch(self._request).result()


class Full:
    """A backend without a place for one more digest."""

    name = "full"

    def prepare(self, pool: Pool) -> None:
        CpuBackend().prepare(pool)

    def launch(self, request: DigestRequest) -> Full:
        return self

    def ready(self) -> bool:
        return True

    def result(self) -> PageDigests:
        raise ScratchFull("no place")


def test_manifest_events_and_observations_arrive_in_the_order_of_the_calls(recorder: Recorder) -> None:
    agent = make(settings_for(recorder, coverage="full"))
    agent.start()
    agent.manifest([POOL, Pool("index_k", POOL.layout, POOL.buffers)], moved={"kv"})
    agent.event(EventKind.opened, "r", keys=["0" * 16], request="q", peer="D0")
    agent.observe(look(request="q", trace="t", tokens=11, peer="D0"))
    assert agent.close(5)
    (manifest,) = recorder.manifests
    assert [(c.name, c.moved, c.layers) for c in manifest.components] == [
        ("kv", True, [0, 1]),
        ("index_k", False, [0, 1]),
    ]
    (opened,), (seen,) = recorder.events, recorder.observations
    assert manifest.seq < opened.seq < seen.seq
    assert (opened.kind, opened.request, opened.peer) == (EventKind.opened, "q", "D0")
    assert (seen.request, seen.trace, seen.tokens, seen.peer) == ("q", "t", 11, "D0")
    assert seen.components[0].signature == manifest.components[0].signature
    worker = recorder.reports[-1].worker
    assert (worker.deployment, worker.server, worker.id) == ("d", "P0", "P0/prefill-0")
    assert agent.stats.faults == 0


def test_the_engine_s_thread_never_waits_for_a_digest(recorder: Recorder) -> None:
    backend = Slow()
    agent = make(settings_for(recorder), backend)
    agent.observe(look("first"))
    agent.observe(look("second"))
    assert len(backend.launched) == 2
    assert recorder.observations == []
    backend.done.set()
    recorder.wait(lambda: len(recorder.observations) == 2)
    assert agent.close(5)


def test_ownership_is_asked_after_the_digest_was_read(recorder: Recorder) -> None:
    backend = Slow()
    agent = make(settings_for(recorder), backend)
    freed: list[bool] = []
    agent.observe(look(owned=lambda: Owned.no if freed else Owned.yes))
    freed.append(True)
    backend.done.set()
    recorder.wait(lambda: len(recorder.observations) == 1)
    assert recorder.observations[0].components[0].owned is Owned.no
    assert agent.close(5)


def test_a_page_count_that_comes_later_completes_what_waited(recorder: Recorder) -> None:
    agent = make(settings_for(recorder, coverage="ends", k=1))
    unsized = ComponentLook(pool=POOL, pages=[3, 4, 5], total_pages=None)
    agent.observe(look(components=[unsized]))
    agent.event(EventKind.started, "r")
    recorder.wait(lambda: len(recorder.events) == 1)
    assert recorder.observations == []
    agent.total("r", "0" * 16, Stage.send, "kv", 3)
    recorder.wait(lambda: len(recorder.observations) == 1)
    assert (recorder.observations[0].components[0].pages, recorder.observations[0].components[0].cells) == (
        3,
        [2, 2, 0],
    )
    assert agent.close(5)


def test_left_out_of_the_sample_is_said_once_by_the_side_that_opens(recorder: Recorder) -> None:
    agent = make(settings_for(recorder, sampling=0.0))
    agent.event(EventKind.opened, "r", keys=["0" * 16])
    agent.observe(look())
    agent.event(EventKind.freed, "r")
    assert agent.close(5)
    assert [event.kind for event in recorder.events] == [EventKind.sampled_out]
    assert recorder.observations == []


def test_a_full_queue_drops_the_room_and_says_so_from_its_reserve() -> None:
    agent = make(settings_for("http://127.0.0.1:9", queue=2, flush_ms=60_000.0, batch=100))
    for number in range(5):
        agent.event(EventKind.opened, f"r{number}")
    agent.event(EventKind.freed, "r4")
    assert agent.stats.drops == {Drop.queue_full.value: 4}
    assert agent.stats.queued == 2 + 3, "two in the queue, a dropped event for each lost room"
    assert not agent.close(0)
    # Nothing was lost without being counted: 4 refused, and the 5 that were queued.
    assert agent.stats.drops == {Drop.queue_full.value: 4, Drop.shutdown.value: 5}


def test_a_dropped_room_sends_no_halves_until_it_begins_anew(recorder: Recorder) -> None:
    agent = make(settings_for(recorder), Full())
    agent.observe(look("r"))
    recorder.wait(lambda: len(recorder.events) == 1)
    agent.event(EventKind.freed, "r")
    agent.event(EventKind.opened, "r")
    recorder.wait(lambda: len(recorder.events) == 2)
    assert [(e.kind, e.reason) for e in recorder.events] == [
        (EventKind.dropped, "scratch_full"),
        (EventKind.opened, ""),
    ]
    assert agent.close(5)
    assert recorder.reports[-1].drops == {Drop.scratch_full.value: 2}, "the look, and the event behind it"


def test_digests_under_way_are_bounded(recorder: Recorder) -> None:
    backend = Slow()
    agent = make(settings_for(recorder, pending=2), backend)
    for number in range(4):
        agent.observe(look(f"r{number}"))
    assert len(backend.launched) == 2
    assert agent.stats.drops == {Drop.pending_full.value: 2}
    backend.done.set()
    assert agent.close(5)
    assert sorted(seen.room for seen in recorder.observations) == ["r0", "r1"]
    assert {e.room for e in recorder.events if e.kind is EventKind.dropped} == {"r2", "r3"}


def test_a_digest_that_never_ends_is_given_up(recorder: Recorder) -> None:
    agent = make(settings_for(recorder, pending_s=0.05), Slow())
    agent.observe(look())
    recorder.wait(lambda: bool(recorder.events))
    assert recorder.events[0].reason == Drop.digest_late.value
    assert agent.close(5)


def test_a_fault_of_ours_never_reaches_the_host(recorder: Recorder) -> None:
    agent = make(settings_for(recorder, raise_faults=False, max_faults=3))
    for number in range(6):
        agent.observe(look(f"r{number}", components=None))
    assert agent.stats.faults == 3, "after that it does not even try"
    assert agent.stats.state is HooksState.detached
    recorder.wait(
        lambda: any(r.heartbeat and r.heartbeat.state is HooksState.detached for r in recorder.reports)
    )
    assert agent.close(5)


def test_a_digest_that_fails_costs_its_room_and_nothing_else(recorder: Recorder) -> None:
    agent = make(settings_for(recorder, raise_faults=False))
    bad = ComponentLook(pool=POOL, pages=[10_000], total_pages=1)
    agent.observe(look("bad", components=[bad]))
    agent.observe(look("good"))
    recorder.wait(lambda: len(recorder.observations) == 1 and len(recorder.events) == 1)
    assert recorder.observations[0].room == "good"
    assert (recorder.events[0].room, recorder.events[0].reason) == ("bad", Drop.digest_failed.value)
    assert agent.stats.faults == 1
    assert agent.close(5)


def test_under_pytest_a_fault_of_a_background_thread_comes_out_at_close(recorder: Recorder) -> None:
    agent = make(settings_for(recorder))
    agent.observe(look("bad", components=[ComponentLook(pool=POOL, pages=[10_000], total_pages=1)]))
    recorder.wait(lambda: len(recorder.events) == 1)
    with pytest.raises(ValueError, match="page 10000"):
        agent.close(5)


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


def test_after_close_it_does_nothing(recorder: Recorder) -> None:
    agent = make(settings_for(recorder))
    assert agent.close(1)
    agent.observe(look())
    agent.event(EventKind.opened, "r")
    agent.start()
    assert agent.close(1)
    assert recorder.reports == []


def test_an_alias_learned_later_goes_out(recorder: Recorder) -> None:
    agent = make(settings_for(recorder))
    agent.learn_alias("10.0.0.7:8998")
    agent.learn_alias("10.0.0.7:8998")
    agent.event(EventKind.opened, "r")
    assert agent.close(5)
    assert recorder.reports[-1].worker.aliases == ["10.0.0.7:8998"]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the system has no fork")
def test_a_forked_child_traces_under_a_boot_of_its_own(recorder: Recorder, tmp_path: Path) -> None:
    script = tmp_path / "forks.py"
    script.write_text(
        textwrap.dedent(
            f"""
            import os, sys, warnings
            warnings.simplefilter("ignore", DeprecationWarning)  # of forking with threads: what is tested
            from pd_tracer_hooks.agent import Agent
            from pd_tracer_hooks.digest.cpu import CpuBackend
            from pd_tracer_hooks.identity import describe_worker
            from pd_tracer_hooks.settings import Settings
            from pd_tracer_hooks.wire import EventKind, Side

            settings = Settings(url={recorder.url!r}, deployment="d", server="P0", flush_ms=5.0)
            agent = Agent(settings, describe_worker(settings, side=Side.prefill), backend=CpuBackend())
            agent.manifest([])
            agent.event(EventKind.opened, "parent")
            children = []
            for name in ("child", ""):
                pid = os.fork()
                if pid == 0:
                    if name:
                        agent.event(EventKind.opened, name)
                    os._exit(0 if agent.close(5) else 1)
                children.append(pid)
            ok = all(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0 for pid in children)
            agent.event(EventKind.freed, "parent")
            sys.exit(0 if agent.close(5) and ok else 1)
            """
        )
    )
    done = subprocess.run(
        [sys.executable, str(script)], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    boots: dict[str, set[str]] = {}
    for report in recorder.reports:
        for event in report.events:
            boots.setdefault(event.room, set()).add(report.worker.boot)
    assert len(boots["parent"]) == 1
    assert len(boots["child"]) == 1
    assert boots["parent"] != boots["child"]
    assert {report.worker.boot for report in recorder.reports} == boots["parent"] | boots["child"], (
        "a child that traced nothing said nothing"
    )
    by_boot = [report.worker.boot for report in recorder.reports for _ in report.manifests]
    assert sorted(by_boot) == sorted([*boots["parent"], *boots["child"]])
