"""The choice of layers: alike on all ranks, and over many rooms fair."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.digests import bounded

from pd_tracer_hooks.selection import choose_layers, parse_policy

OWNING = st.lists(st.integers(0, 60), unique=True, max_size=61)


@pytest.mark.parametrize(
    ("policy", "owning", "expected"),
    [
        ("all", [5, 1, 3], (1, 3, 5)),
        ("all", [], ()),
        ("ends", range(61), (0, 30, 60)),
        ("ends", [3, 9, 27, 60], (3, 9, 60)),
        ("ends", [8, 2], (2, 8)),
        ("ends", [8], (8,)),
        ("ends", [], ()),
        ("rotate:9", [4, 2], (2, 4)),
        ("rotate:1", [], ()),
    ],
)
def test_choices(policy: str, owning: list[int], expected: tuple[int, ...]) -> None:
    assert choose_layers(policy, owning, 61, "4711") == expected


def test_rotate_vectors() -> None:
    """Workers of different releases must choose alike."""
    assert choose_layers("rotate:4", range(61), 61, "4711") == (15, 30, 45, 60)
    assert choose_layers("rotate:4", range(61), 61, "engine-0/req-1") == (7, 22, 37, 53)


@bounded(100)
@given(owning=OWNING, count=st.integers(1, 70), room=st.text(max_size=20))
def test_rotate_takes_so_many_of_the_owning_layers(owning: list[int], count: int, room: str) -> None:
    chosen = choose_layers(f"rotate:{count}", owning, 61, room)
    assert len(set(chosen)) == len(chosen) == min(count, len(owning))
    assert set(chosen) <= set(owning)
    assert list(chosen) == sorted(chosen)
    assert choose_layers(f"rotate:{count}", list(reversed(owning)), 61, room) == chosen


def test_rotate_reaches_all_layers_equally_often() -> None:
    rooms = 3000
    found = Counter(
        layer for room in range(rooms) for layer in choose_layers("rotate:4", range(61), 61, str(room))
    )
    assert set(found) == set(range(61))
    expected = rooms * 4 / 61
    assert all(abs(times - expected) < 5 * expected**0.5 for times in found.values())


def test_rotate_spreads_a_rooms_layers() -> None:
    for room in range(50):
        chosen = choose_layers("rotate:4", range(61), 61, str(room))
        gaps = [(after - before) % 61 for before, after in zip(chosen, chosen[1:] + chosen[:1], strict=True)]
        assert set(gaps) <= {15, 16}


@pytest.mark.parametrize("text", ["all", "ends", "rotate:1", "rotate:61"])
def test_a_policys_text_is_read_back(text: str) -> None:
    assert str(parse_policy(text)) == text
    assert str(parse_policy(f" {text} ")) == text


def test_equal_policies_have_one_text() -> None:
    assert str(parse_policy("rotate:04")) == "rotate:4"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "none",
        "ALL",
        "all:1",
        "ends:",
        "rotate",
        "rotate:",
        "rotate:0",
        "rotate:-1",
        "rotate:x",
        "rotate:²",
    ],
)
def test_an_unknown_policy_is_told_the_choices(text: str) -> None:
    with pytest.raises(ValueError, match="use all, ends or rotate:N"):
        parse_policy(text)


@pytest.mark.parametrize("owning", [[-1, 2], [0, 61]])
def test_layers_outside_the_model_are_refused(owning: list[int]) -> None:
    with pytest.raises(ValueError, match="the model has 61 layers"):
        choose_layers("all", owning, 61, "4711")
