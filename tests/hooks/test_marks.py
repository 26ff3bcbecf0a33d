from __future__ import annotations

import pytest

from pd_tracer_hooks import marks as module
from pd_tracer_hooks.drops import Drop
from pd_tracer_hooks.marks import MARK_S, Marks


def test_a_mark_is_news_once_and_keeps_its_first_reason() -> None:
    marks = Marks()
    assert marks.reason("r") is None
    assert marks.add("r", [], Drop.queue_full)
    assert not marks.add("r", [], Drop.digest_late)
    assert marks.reason("r") is Drop.queue_full
    assert marks.reason("other") is None


def test_another_transfer_of_a_marked_room_is_news() -> None:
    marks = Marks()
    assert marks.add("r", ["a"], Drop.queue_full)
    assert not marks.add("r", ["a"], Drop.queue_full)
    assert marks.add("r", ["a", "b"], Drop.queue_full)
    assert not marks.add("r", ["b"], Drop.queue_full)


def test_a_mark_expires_and_is_not_kept_alive_by_what_it_stops() -> None:
    now = [100.0]
    marks = Marks(lambda: now[0])
    marks.add("r", [], Drop.queue_full)
    now[0] += MARK_S - 1
    assert not marks.add("r", [], Drop.queue_full)
    now[0] += 2
    assert marks.reason("r") is None
    assert marks.add("r", [], Drop.queue_full)


def test_a_room_that_begins_anew_is_clear() -> None:
    marks = Marks()
    marks.clear("r")
    marks.add("r", ["a"], Drop.queue_full)
    marks.clear("r")
    assert marks.reason("r") is None
    assert marks.add("r", ["a"], Drop.queue_full)


def test_the_oldest_give_way(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MARKS", 2)
    monkeypatch.setattr(module, "KEYS", 1)
    marks = Marks()
    for room in ("a", "b", "c"):
        marks.add(room, [], Drop.queue_full)
    assert [marks.reason(room) is None for room in ("a", "b", "c")] == [True, False, False]
    assert [marks.add("b", [key], Drop.queue_full) for key in ("1", "2")] == [True, False]
