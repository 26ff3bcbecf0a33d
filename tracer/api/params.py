"""Query parameters that several routes have, and how their text is read."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, StringConstraints

from tracer.times import parse_duration, parse_moment

#: A name from a worker. No NUL: PostgreSQL has none in text, so no room, worker or server has one.
Name = Annotated[str, StringConstraints(min_length=1, max_length=512, pattern=r"^[^\x00]+$")]


class Params(BaseModel):
    """Query parameters. One that is not known is refused: a filter with a typing error must not match all."""

    model_config = ConfigDict(extra="forbid", frozen=True)


def _is_moment(text: str) -> str:
    parse_moment(text, 0.0)
    return text


def _is_duration(text: str) -> str:
    parse_duration(text)
    return text


def _as_text(value: Any) -> Any:
    return str(value) if isinstance(value, int | float) else value


Moment = Annotated[
    str,
    BeforeValidator(_as_text),
    AfterValidator(_is_moment),
    Field(
        description="Seconds since the epoch, ISO 8601 (UTC without an offset), or `15m`: that long ago",
        examples=["15m", "2026-01-31T12:00:00Z", "1764000000"],
    ),
]
Duration = Annotated[
    str,
    BeforeValidator(_as_text),
    AfterValidator(_is_duration),
    Field(description="`90`, `90s`, `15m`, `1h30m`, `7d`", examples=["15m"]),
]


#: A year. What answers for a window reads all of it: longer ones are for a time series database.
MAX_WINDOW_S = 366 * 86_400.0


def _is_window(text: str) -> str:
    if not 0 < parse_duration(text) <= MAX_WINDOW_S:
        raise ValueError("the window must be longer than 0 and at most 366d")
    return text


#: How far to look back.
Window = Annotated[Duration, AfterValidator(_is_window)]
