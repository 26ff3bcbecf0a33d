"""What the read side answers, as OpenAPI shows it, and as the client reads it.

64-bit values are text: JavaScript has no such number. Times are seconds since the epoch by the
collector's clock, unless a field says otherwise. Nothing here imports FastAPI: the client reads these too.
"""

from tracer.api.models.base import Choices, Problem
from tracer.api.models.culprits import Culprits
from tracer.api.models.fleet import Exonerated
from tracer.api.models.room import Room
from tracer.api.models.rooms import RoomPage, RoomSummary
from tracer.api.models.summary import Summary
from tracer.api.models.workers import Worker, Workers

__all__ = [
    "Choices",
    "Culprits",
    "Exonerated",
    "Problem",
    "Room",
    "RoomPage",
    "RoomSummary",
    "Summary",
    "Worker",
    "Workers",
]
