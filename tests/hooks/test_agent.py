"""An agent from the engine's call to what arrives at a collector."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest
from support.agents import POOL, Full, Slow, look, make, settings_for
from support.recorder import Recorder, recording

from pd_tracer_hooks.capture import ComponentLook
from pd_tracer_hooks.digest.backend import Pool
from pd_tracer_hooks.drops import Drop
from pd_tracer_hooks.wire import EventKind, Owned, Stage


@pytest.fixture
def recorder() -> Iterator[Recorder]:
    with recording(Recorder()) as running:
        yield running


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


def test_several_may_close_it_and_hear_the_same(recorder: Recorder) -> None:
    agent = make(settings_for(recorder))
    agent.event(EventKind.opened, "r")
    heard: list[bool] = []
    threads = [threading.Thread(target=lambda: heard.append(agent.close(5))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(10)
    assert heard == [True] * 4
    assert len(recorder.events) == 1


def test_many_threads_number_their_records_once_each(recorder: Recorder) -> None:
    agent = make(settings_for(recorder))

    def work(name: int) -> None:
        for number in range(50):
            agent.event(EventKind.opened, f"{name}-{number}")
            agent.observe(look(f"{name}-{number}"))

    threads = [threading.Thread(target=work, args=(name,)) for name in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert agent.close(10)
    records = [*recorder.events, *recorder.observations]
    assert len(records) == 400
    assert sorted(record.seq for record in records) == list(range(1, 401))


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
