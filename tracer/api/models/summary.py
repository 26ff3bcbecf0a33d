"""What was settled in a window of time."""

from __future__ import annotations

from typing import Any

from pydantic import ConfigDict, Field

from tracer.api.models.base import Model
from tracer.join.model import Verdict

_COUNTED: dict[str, Any] = {
    "counts": {"match": 111, "mismatch": 1},
    "compared": 112,
    "match_ratio": 0.9910714285714286,
    "mismatch_ratio": 0.008928571428571428,
}
_FINE: dict[str, Any] = {"counts": {"match": 112}, "compared": 112, "match_ratio": 1.0, "mismatch_ratio": 0.0}


class Tally(Model):
    """How often each verdict was settled in the window."""

    counts: dict[Verdict, int]
    compared: int = Field(description="match + mismatch")
    match_ratio: float | None = Field(description="match / compared; null where nothing was compared")
    mismatch_ratio: float | None = Field(description="mismatch / compared; null where nothing was compared")


class ComponentTally(Tally):
    """The same for one component, by its own verdicts."""

    component: str


class PairTally(Model):
    """One prefill server with one decode server."""

    deployment: str
    prefill: str
    decode: str
    rooms: Tally
    components: list[ComponentTally]


class PendingRooms(Model):
    """Rooms that wait for something."""

    rooms: int
    oldest_age_s: float | None = Field(description="Age of the one that waits longest; null: none waits")


class Summary(Model):
    """What was settled in a window of time."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "window_s": 900.0,
                    "since": 1763999100.0,
                    "until": 1764000007.5,
                    "deployment": "docs",
                    "rooms": _COUNTED,
                    "components": [{"component": "index_k", **_COUNTED}, {"component": "kv", **_FINE}],
                    "pairs": [
                        {
                            "deployment": "docs",
                            "prefill": "P0",
                            "decode": "D0",
                            "rooms": _COUNTED,
                            "components": [
                                {"component": "index_k", **_COUNTED},
                                {"component": "kv", **_FINE},
                            ],
                        }
                    ],
                    "pending": {"rooms": 3, "oldest_age_s": 0.4},
                }
            ]
        }
    )
    window_s: float
    since: float = Field(description="Begin of the first minute that counts")
    until: float
    deployment: str | None
    rooms: Tally
    components: list[ComponentTally]
    pairs: list[PairTally] = Field(description="Pairs that settled something in the window")
    pending: PendingRooms
