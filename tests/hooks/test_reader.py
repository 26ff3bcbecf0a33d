"""The pick-up of digests: what it waits for, what it gives up, and what it never mixes up."""

from __future__ import annotations

import itertools
import queue
import time
from collections.abc import Callable, Iterator

import pytest

from pd_tracer_hooks import reader as module
from pd_tracer_hooks.capture import ComponentLook, Launched, Look, Plan
from pd_tracer_hooks.digest.backend import PageDigests, Pool
from pd_tracer_hooks.drops import Drop
from pd_tracer_hooks.layout import PageLayout
from pd_tracer_hooks.reader import Reader
from pd_tracer_hooks.wire import Observation, Stage

POOL = Pool("kv", PageLayout.plain(4, 16), {})
PLAN = Plan(full=True, k=1, layer_choice="all", layer_sums=False, owning_layers={})
KEY = "0" * 16


class Pending:
    """A digest of two pages of layer 0, done at once or never."""

    def __init__(self, done: bool = True, fault: Exception | None = None) -> None:
        self._done, self._fault = done, fault

    def ready(self) -> bool:
        return self._done

    def result(self) -> PageDigests:
        if self._fault is not None:
            raise self._fault
        return PageDigests((0,), 2, bytes(16), 1.0, 2.0)


class Desk:
    """A reader, with what came out of it."""

    def __init__(self, *, limit: int = 100, patience_s: float = 60.0) -> None:
        self.out: queue.Queue[Observation | tuple[str, Drop] | Exception] = queue.Queue()
        self.on_lose: Callable[[], None] = lambda: None
        self.reader = Reader(
            PLAN,
            limit=limit,
            patience_s=patience_s,
            deliver=self.out.put,
            lose=self._lose,
            fault=self.out.put,
        )
        self._seq = itertools.count()
        self.reader.start()

    def _lose(self, look: Look, reason: Drop) -> None:
        self.out.put((look.room, reason))
        self.on_lose()

    def submit(self, room: str, *, total: int | None, pending: Pending | None = None, key: str = KEY) -> bool:
        component = ComponentLook(pool=POOL, pages=[7, 8], total_pages=total)
        look = Look(room=room, keys=[key] if key else [], stage=Stage.send, components=[component])
        launched = Launched(component, range(2), (7, 8), pending or Pending())
        return self.reader.submit(look, next(self._seq), [launched])

    def total(self, room: str, pages: int, key: str = KEY) -> None:
        self.reader.total((room, key, Stage.send, "kv"), pages)

    def next(self) -> Observation | tuple[str, Drop] | Exception:
        return self.out.get(timeout=5)

    def next_observation(self) -> tuple[str, int]:
        seen = self.next()
        assert isinstance(seen, Observation)
        return seen.room, seen.components[0].pages


@pytest.fixture
def desk() -> Iterator[Desk]:
    desk = Desk()
    yield desk
    desk.reader.close(0.0)


def test_a_page_count_sizes_the_looks_before_it(desk: Desk) -> None:
    desk.submit("r", total=None)
    desk.submit("r", total=None)
    desk.total("r", 5)
    assert [desk.next_observation() for _ in range(2)] == [("r", 5), ("r", 5)]


@pytest.mark.parametrize("key", [KEY, ""])
def test_a_room_and_key_used_again_wait_for_their_own_page_count(desk: Desk, key: str) -> None:
    desk.submit("r", total=None, key=key)
    desk.total("r", 5, key)
    assert desk.next_observation() == ("r", 5)
    desk.submit("r", total=None, key=key)
    desk.submit("marker", total=2)
    assert desk.next_observation() == ("marker", 2), "the count of the room's earlier use is not taken"
    desk.total("r", 3, key)
    assert desk.next_observation() == ("r", 3)


def test_a_page_count_may_come_while_the_digest_is_under_way(desk: Desk) -> None:
    slow = Pending(done=False)
    desk.submit("r", total=None, pending=slow)
    desk.total("r", 4)
    slow._done = True
    assert desk.next_observation() == ("r", 4)


def test_kept_page_digests_are_bounded_and_their_room_comes_back(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "KEPT_BYTES", 32)
    for room in ("a", "b", "c"):
        desk.submit(room, total=None)
    assert desk.next() == ("c", Drop.pending_full)
    desk.total("a", 2)
    assert desk.next_observation() == ("a", 2)
    desk.submit("d", total=None)
    desk.submit("marker", total=2)
    assert desk.next_observation() == ("marker", 2), "d was kept"
    desk.total("d", 2)
    assert desk.next_observation() == ("d", 2)


def test_a_look_whose_page_count_never_comes_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "TOTAL_PATIENCE", 1)
    desk = Desk(patience_s=0.01)
    desk.submit("r", total=None)
    assert desk.next() == ("r", Drop.digest_late)
    assert len(desk.reader) == 0
    desk.reader.close(0.0)


def test_beyond_the_limit_it_says_no() -> None:
    desk = Desk(limit=2)
    never = Pending(done=False)
    assert [desk.submit("r", total=2, pending=never) for _ in range(3)] == [True, True, False]
    desk.reader.close(0.0)
    assert [desk.next(), desk.next()] == [("r", Drop.shutdown)] * 2


def test_close_waits_for_digests_and_not_for_page_counts(desk: Desk) -> None:
    desk.submit("unsized", total=None)
    desk.submit("sized", total=2)
    started = time.monotonic()
    desk.reader.close(started + 8)
    assert time.monotonic() - started < 4
    assert desk.next_observation() == ("sized", 2)
    assert desk.next() == ("unsized", Drop.shutdown)


def test_nothing_that_goes_wrong_ends_the_thread(desk: Desk) -> None:
    def fail() -> None:
        raise RuntimeError("while losing")

    desk.on_lose = fail
    desk.submit("bad", total=2, pending=Pending(fault=ValueError("while reading")))
    assert desk.next() == ("bad", Drop.digest_failed)
    assert str(desk.next()) == "while losing"
    desk.submit("good", total=2)
    assert desk.next_observation() == ("good", 2)
