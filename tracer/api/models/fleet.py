"""Of how many rooms of a window the transfer is exonerated."""

from __future__ import annotations

from pydantic import ConfigDict, Field

from tracer.api.models.base import Model
from tracer.api.models.rooms import RoomSummary
from tracer.join.model import Cause, Verdict


class Exonerated(Model):
    """How the rooms of a window stand before the question whether the transfer did it."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "window_s": 3600.0,
                    "since": 1763996400.0,
                    "deployment": "docs",
                    "summary": "the transfer is exonerated in 111 of 112 rooms compared; "
                    "1 with damage left unexplained",
                    "read": 114,
                    "exonerated": 111,
                    "ends_only": 0,
                    "not_all_traced": 0,
                    "explained": {},
                    "unexplained": 1,
                    "not_compared": {"aborted": 2},
                    "rooms": [],
                    "sampled": False,
                }
            ]
        }
    )
    window_s: float
    since: float
    deployment: str | None
    summary: str = Field(description="The same in one sentence")
    read: int = Field(description="Rooms that were read")
    exonerated: int = Field(
        description="Rooms of which every page of every layer and component was read, and equal"
    )
    ends_only: int = Field(description="Rooms that are equal where only head and tail were read")
    not_all_traced: int = Field(
        description="Rooms equal in full as far as they were traced, which is not enough to exonerate"
    )
    explained: dict[Cause, int] = Field(description="Rooms that differ, by the cause that is told")
    unexplained: int = Field(description="Rooms that differ, and no cause could be told")
    not_compared: dict[Verdict, int] = Field(
        description="Rooms with any other verdict; pending ones are left out"
    )
    rooms: list[RoomSummary] = Field(description="The newest of the rooms left unexplained")
    sampled: bool = Field(description="Whether only the newest rooms of the window were read")
