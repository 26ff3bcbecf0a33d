"""What an agent does when something of ours, or of its caller's, goes wrong."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from support.agents import POOL, Full, look, make, settings_for
from support.recorder import Recorder, recording

from pd_tracer_hooks.agent import Agent
from pd_tracer_hooks.capture import ComponentLook
from pd_tracer_hooks.client import HttpTransport
from pd_tracer_hooks.digest.backend import DigestRequest, ScratchFull
from pd_tracer_hooks.digest.cpu import CpuBackend
from pd_tracer_hooks.drops import Drop
from pd_tracer_hooks.identity import describe_worker
from pd_tracer_hooks.wire import EventKind, HooksState, Side, Stage


@pytest.fixture
def recorder() -> Iterator[Recorder]:
    with recording(Recorder()) as running:
        yield running


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


@pytest.mark.parametrize(
    "room", ["\ud800", "a\0b", "x" * 10_000, "räume/😀", "a b/c?d#e%", "'; DROP TABLE rooms; --", "\r\n"]
)
def test_rooms_with_odd_characters_arrive_alike_from_every_call(recorder: Recorder, room: str) -> None:
    agent = make(settings_for(recorder))
    agent.event(EventKind.opened, room, request=room, trace=room, peer=room, reason=room)
    agent.observe(look(room, request=room, trace=room, peer=room))
    agent.observe(look(room, components=[ComponentLook(pool=POOL, pages=[3], total_pages=None)]))
    agent.total(room, "0" * 16, Stage.send, "kv", 1)
    recorder.wait(lambda: len(recorder.observations) == 2)
    assert agent.close(5)
    assert len({record.room for record in [*recorder.events, *recorder.observations]}) == 1
    assert agent.stats.faults == 0


def test_a_launch_that_fails_drops_its_room_and_is_a_fault(recorder: Recorder) -> None:
    agent = make(settings_for(recorder, raise_faults=False))
    agent.observe(look("r", components=[*look().components, None]))
    agent.observe(look("r"))
    assert agent.close(5)
    assert [(e.kind, e.reason) for e in recorder.events] == [(EventKind.dropped, "fault")]
    assert recorder.observations == []
    assert (agent.stats.faults, agent.stats.drops) == (1, {Drop.fault.value: 2})


def test_a_backend_that_is_full_at_once_is_no_fault(recorder: Recorder) -> None:
    class FullAtOnce(Full):
        def launch(self, request: DigestRequest) -> Full:
            raise ScratchFull("no place")

    agent = make(settings_for(recorder), FullAtOnce())
    agent.observe(look("r"))
    assert agent.close(5)
    assert [e.reason for e in recorder.events] == ["scratch_full"]
    assert agent.stats.faults == 0


def test_a_start_that_fails_is_tried_again_with_the_next_record(recorder: Recorder) -> None:
    tries: list[int] = []

    def transport() -> HttpTransport:
        tries.append(1)
        if len(tries) == 1:
            raise RuntimeError("can't start now")
        return HttpTransport(recorder.url)

    settings = settings_for(recorder, raise_faults=False)
    worker = describe_worker(settings, side=Side.prefill)
    agent = Agent(settings, worker, backend=CpuBackend(), transport=transport)
    agent.event(EventKind.opened, "first")
    agent.event(EventKind.opened, "second")
    assert agent.close(5)
    assert [event.room for event in recorder.events] == ["first", "second"]
    assert agent.stats.faults == 1


def test_without_ever_a_start_what_was_queued_is_counted() -> None:
    def transport() -> HttpTransport:
        raise RuntimeError("can't start")

    settings = settings_for("http://127.0.0.1:9", raise_faults=False)
    worker = describe_worker(settings, side=Side.prefill)
    agent = Agent(settings, worker, backend=CpuBackend(), transport=transport)
    agent.event(EventKind.opened, "r")
    assert not agent.close(0.1)
    assert not agent.close(0.1), "asked again, it says the same"
    assert agent.stats.drops == {Drop.shutdown.value: 1}
