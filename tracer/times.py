"""Times and durations as people write them: ``15m``, ``2026-01-31T12:00:00Z``, seconds."""

from __future__ import annotations

import math
import re
from datetime import UTC, datetime

_UNITS = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86_400.0, "w": 604_800.0}
_PART = re.compile(r"([0-9]{1,15}(?:\.[0-9]{1,15})?)([smhdw])")
_DURATION = re.compile(rf"(?:{_PART.pattern})+")
#: The largest time that the wire takes, too.
MAX_S = 1e11


def parse_duration(text: str) -> float:
    """Seconds of ``90``, ``90s``, ``15m``, ``1h30m`` or ``7d``.

    Raises ``ValueError`` that says what is wrong.
    """
    wanted = text.strip()
    if _DURATION.fullmatch(wanted):
        return _bounded(sum(float(amount) * _UNITS[unit] for amount, unit in _PART.findall(wanted)), text)
    seconds = _number(wanted)
    if seconds is None:
        raise ValueError(f"{text!r} is no duration: write 90, 90s, 15m, 1h30m or 7d")
    return _bounded(seconds, text)


def parse_moment(text: str, now: float) -> float:
    """Seconds since the epoch of a moment.

    ``1764000000`` is itself, ``15m`` is so long ago, ``2026-01-31T12:00:00Z`` is ISO 8601 (without an offset:
    UTC). Raises ``ValueError`` that says what is wrong.
    """
    wanted = text.strip()
    if _DURATION.fullmatch(wanted):
        return max(0.0, now - parse_duration(wanted))
    seconds = _number(wanted)
    if seconds is not None:
        return _bounded(seconds, text)
    if "T" in wanted:
        # In a URL that was not quoted, the plus of an offset arrives as a blank.
        wanted = wanted.replace(" ", "+")
    try:
        moment = datetime.fromisoformat(wanted)
    except ValueError:
        raise ValueError(
            f"{text!r} is no time: write seconds since the epoch, 2026-01-31T12:00:00Z,"
            " or 15m for that long ago"
        ) from None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return _bounded(moment.timestamp(), text)


def iso(seconds: float) -> str:
    """``2026-01-31T12:00:00.000Z``."""
    moment = datetime.fromtimestamp(seconds, UTC)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _number(text: str) -> float | None:
    # float() would also take "1_0", "nan" and digits of other scripts.
    return float(text) if re.fullmatch(r"[0-9]{1,20}(\.[0-9]{0,20})?", text) else None


def _bounded(seconds: float, text: str) -> float:
    if not (math.isfinite(seconds) and 0 <= seconds <= MAX_S):
        raise ValueError(f"{text!r} is out of range: 0 to {MAX_S:g} seconds")
    return seconds
