"""Jobs after a time or after events, on one thread that the engine never waits for."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator

import pytest

from pd_tracer_hooks.sglang import later as later_module
from pd_tracer_hooks.sglang.later import Later


class Event:
    def __init__(self, done: bool = False) -> None:
        self.done = done

    def query(self) -> bool:
        return self.done


@pytest.fixture
def dropped() -> list[str]:
    return []


@pytest.fixture
def later(dropped: list[str]) -> Iterator[Later]:
    one = Later(lambda job: job(), dropped.append)
    yield one
    one.close()


def test_jobs_run_in_the_order_of_their_time(later: Later) -> None:
    order: list[str] = []
    done = threading.Event()
    later.after(0.06, done.set)
    later.after(0.03, lambda: order.append("second"))
    later.after(0.0, lambda: order.append("first"))
    assert done.wait(5)
    assert order == ["first", "second"]


def test_events_that_are_done_run_the_job_at_once_and_here(later: Later) -> None:
    where: list[int] = []
    later.when([], lambda: where.append(threading.get_ident()))
    later.when([Event(True)], lambda: where.append(threading.get_ident()))
    assert where == [threading.get_ident()] * 2


def test_a_job_waits_for_all_its_events(later: Later) -> None:
    first, second, ran = Event(), Event(True), threading.Event()
    later.when([first, second], ran.set)
    assert not ran.wait(0.02)
    first.done = True
    assert ran.wait(5)


def test_an_event_that_is_never_done_is_given_up(
    later: Later, dropped: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(later_module, "GIVE_UP_S", 0.01)
    later.when([Event()], lambda: dropped.append("ran"))
    deadline = time.monotonic() + 5
    while not dropped and time.monotonic() < deadline:
        time.sleep(0.005)
    assert dropped == ["event_never_done"]


def test_full_drops_and_says_so(later: Later, dropped: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(later_module, "MAX_JOBS", 2)
    for _ in range(3):
        later.after(60, lambda: None)
    assert dropped == ["later_full"]


def test_closed_takes_nothing_more(later: Later, dropped: list[str]) -> None:
    later.close()
    later.after(0, lambda: dropped.append("ran"))
    assert dropped == ["later_full"]
