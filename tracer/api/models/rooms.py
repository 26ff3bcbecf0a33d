"""Lists of rooms."""

from __future__ import annotations

from pydantic import ConfigDict, Field

from pd_tracer_hooks.wire import Coverage
from tracer.api.models.base import Model
from tracer.join.model import Cause, Verdict


class RoomSummary(Model):
    """One room in a list."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "room": "4711",
                    "deployment": "docs",
                    "verdict": "mismatch",
                    "cause": "unexplained",
                    "summary": "room 4711: index_k mismatch, layer 7, head and tail, page 0, pair P0→D0",
                    "coverage": "full",
                    "components": ["index_k"],
                    "prefill_server": "P0",
                    "decode_server": "D0",
                    "request_prefill": "req-a",
                    "request_decode": "req-b",
                    "trace": "",
                    "run": "",
                    "settled": True,
                    "first_seen": 1764000000.01,
                    "last_seen": 1764000000.21,
                    "settled_at": 1764000000.21,
                    "attempts": 1,
                    "revisions": 0,
                }
            ]
        }
    )
    room: str
    deployment: str
    verdict: Verdict
    cause: Cause | None = None
    summary: str = Field(description="The verdict in words")
    coverage: Coverage | None = Field(None, description="The least of what was compared")
    components: list[str] = Field(description="Components that have the room's verdict")
    prefill_server: str
    decode_server: str
    request_prefill: str
    request_decode: str
    trace: str
    run: str
    settled: bool = Field(description="Nothing that is still expected can change the verdict")
    first_seen: float
    last_seen: float
    settled_at: float | None
    attempts: int = Field(description="How often decode opened it")
    revisions: int = Field(description="How often the verdict changed after it was settled")


class RoomPage(Model):
    """Part of a list of rooms."""

    rooms: list[RoomSummary]
    next: str | None = Field(description="Give it back as `cursor` for the rest; null: there is none")
