from __future__ import annotations

import pytest

from pd_tracer_hooks.texts import ROOM_BYTES, fit, fit_room


@pytest.mark.parametrize(
    ("text", "limit", "fitted"),
    [
        ("plain", 256, "plain"),
        ("plain", 3, "pla"),
        ("räume", 3, "rä"),
        ("räume", 2, "r"),  # half a character is none
        ("😀", 3, ""),
        ("a\0b", 256, "a?b"),
        ("a\ud800b", 256, "a?b"),
        ("", 256, ""),
    ],
)
def test_a_text_is_cut_and_cleaned(text: str, limit: int, fitted: str) -> None:
    assert fit(text, limit) == fitted
    assert len(fitted.encode()) <= limit


@pytest.mark.parametrize(
    "room", ["18446744073709551615", "x" * ROOM_BYTES, "räume/😀", "ä" * (ROOM_BYTES // 2)]
)
def test_a_room_that_fits_stays_as_it_is(room: str) -> None:
    assert fit_room(room) == room


@pytest.mark.parametrize("start", ["x" * 600, "ä" * 300, "\ud800" * 600])
def test_rooms_that_are_too_long_fit_and_stay_different(start: str) -> None:
    first, second = fit_room(start + "1"), fit_room(start + "2")
    assert first != second
    assert fit_room(start + "1") == first, "the other side comes to the same name"
    for room in (first, second):
        assert len(room.encode()) <= ROOM_BYTES
        assert fit_room(room) == room
