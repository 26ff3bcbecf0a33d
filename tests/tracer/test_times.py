"""Times as people write them."""

from __future__ import annotations

import pytest

from tracer.times import iso, parse_duration, parse_moment

NOW = 1_764_000_000.0


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("90", 90),
        ("0.5", 0.5),
        ("90s", 90),
        ("15m", 900),
        (" 15m ", 900),
        ("1h30m", 5400),
        ("1.5h", 5400),
        ("7d", 604_800),
        ("2w", 1_209_600),
    ],
)
def test_durations(text: str, seconds: float) -> None:
    assert parse_duration(text) == seconds


@pytest.mark.parametrize(
    "text", ["", "m", "15 m", "-5", "-5m", "1e3", "nan", "inf", "15x", "\u0661", "\u0661m", "9" * 21, "1_0"]
)
def test_what_is_no_duration(text: str) -> None:
    with pytest.raises(ValueError, match=r"no duration: write 90|out of range"):
        parse_duration(text)


@pytest.mark.parametrize(
    ("text", "moment"),
    [
        ("15m", NOW - 900),
        ("1764000000", NOW),
        ("1764000000.25", NOW + 0.25),
        ("2025-11-24T16:00:00Z", NOW),
        ("2025-11-24T16:00:00", NOW),
        ("2025-11-24 16:00:00", NOW),
        ("2025-11-24T17:00:00+01:00", NOW),
        ("2025-11-24T17:00:00 01:00", NOW),
        ("2025-11-24", NOW - 16 * 3600),
        ("100000w", 0.0),
    ],
)
def test_moments(text: str, moment: float) -> None:
    assert parse_moment(text, NOW) == moment


@pytest.mark.parametrize("text", ["", "yesterday", "-1", "2025-13-01", "25:00", "1969-12-31", "1" * 20])
def test_what_is_no_moment(text: str) -> None:
    with pytest.raises(ValueError, match=r"no time: write seconds|out of range"):
        parse_moment(text, NOW)


def test_iso() -> None:
    assert iso(NOW + 0.25) == "2025-11-24T16:00:00.250Z"
