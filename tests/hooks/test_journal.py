from __future__ import annotations

import pytest

from pd_tracer_hooks.journal import Entry, Journal
from pd_tracer_hooks.wire import Stage


def entry(room: str, component: str = "kv", pages: int = 10, **changes: object) -> Entry:
    values = {
        "room": room,
        "keys": ("0" * 16,),
        "stage": Stage.send,
        "look": 0,
        "component": component,
        "layers": (0, 1),
        "runs": ((0, pages),),
        "digests": bytes(2 * pages * 8),
    }
    return Entry(**(values | changes))  # type: ignore[arg-type]


def test_what_was_kept_is_found_in_order() -> None:
    journal = Journal(1 << 20)
    kept = [entry("r"), entry("r", "index_k"), entry("r", stage=Stage.release)]
    for each in kept:
        journal.keep(each)
    journal.keep(entry("other"))
    assert journal.find("r") == kept
    assert journal.find("nowhere") == []


@pytest.mark.parametrize(
    ("filters", "found"),
    [
        ({"component": "index_k"}, 1),
        ({"stages": ["send"]}, 2),
        ({"stages": ["receive"]}, 0),
        ({"keys": ["0" * 16]}, 3),
        ({"keys": ["f" * 16]}, 0),
        ({"keys": ["f" * 16, "0" * 16], "stages": ["release"]}, 1),
    ],
)
def test_filters(filters: dict[str, list[str]], found: int) -> None:
    journal = Journal(1 << 20)
    for each in (entry("r"), entry("r", "index_k"), entry("r", stage=Stage.release)):
        journal.keep(each)
    assert len(journal.find("r", **filters)) == found  # type: ignore[arg-type]


def test_a_look_without_keys_belongs_to_whoever_asks() -> None:
    journal = Journal(1 << 20)
    journal.keep(entry("r", keys=()))
    assert len(journal.find("r", keys=["f" * 16])) == 1


def test_the_room_looked_at_longest_ago_goes_first() -> None:
    size = entry("a").size
    journal = Journal(3 * size)
    for room in ("a", "b", "a", "c"):
        journal.keep(entry(room))
    assert journal.find("b") == []
    assert len(journal.find("a")) == 2
    assert journal.size == 3 * size
    assert len(journal) == 2


@pytest.mark.parametrize("limit", [0, 100])
def test_what_is_larger_than_the_journal_is_not_kept(limit: int) -> None:
    journal = Journal(limit)
    journal.keep(entry("r"))
    assert (journal.size, journal.find("r")) == (0, [])
