"""What the demo's processes and the one that started them say to each other: JSON lines over pipes."""

from __future__ import annotations

from msgspec import Struct

from tracer.demo.faults import Aim
from tracer.demo.geometry import Geometry
from tracer.demo.plan import Engine, PlannedRoom, Stages


class WorkerConfig(Struct, frozen=True, kw_only=True):
    """A worker's first line: all it needs to know. ``server`` is its name, ``side`` prefill or decode."""

    server: str
    side: str
    collector: str
    deployment: str
    geometry: Geometry
    rooms: list[PlannedRoom]
    concurrency: int
    seed: int
    run: str
    #: Components in this worker's transfer list.
    listed: tuple[str, ...]
    #: What is observed.
    stages: Stages = "all"
    engine: Engine = "nixl"
    #: The address of this worker's end of the transfer engine, and of its control port.
    host: str = "127.0.0.1"
    #: Whether pages are filled with words that say where they belong (:mod:`tracer.demo.tags`).
    tagged: bool = False
    #: Names the heads that this rank holds, if not all.
    head_slice: str = ""
    #: How long to wait at the end until the hooks have delivered everything.
    flush_s: float = 20.0


class Peers(Struct, frozen=True, kw_only=True):
    """Decode's second line: prefill servers by name, each with the port that it listens on."""

    ports: dict[str, int]
    host: str = "127.0.0.1"


class Ready(Struct, frozen=True, kw_only=True, tag=True):
    """Memory is allocated and registered. ``port``: prefill's control port, 0 on decode."""

    pid: int
    port: int = 0


class Closed(Struct, frozen=True, kw_only=True, tag=True):
    """Decode is done with a room."""

    index: int


class Injected(Struct, frozen=True, kw_only=True, tag=True):
    """A fault was made: for real, just now."""

    index: int
    key: str
    aim: Aim


class Idle(Struct, frozen=True, kw_only=True, tag=True):
    """All rooms are over. The worker stays, to answer what the collector asks, until it is told to end."""


class End(Struct, frozen=True, kw_only=True):
    """A worker's last line: deliver what there is, and end."""


class Finished(Struct, frozen=True, kw_only=True, tag=True):
    """The last words of a worker. ``bytes_moved`` is NIXL's own count of what this process wrote."""

    pid: int
    peer_pids: tuple[int, ...]
    bytes_moved: int = 0
    writes: int = 0
    signals: int = 0
    #: Records that the hooks lost, by reason, and whether all the others were delivered in time.
    drops: dict[str, int] = {}
    delivered: bool = True


class Trouble(Struct, frozen=True, kw_only=True, tag=True):
    """A worker cannot go on."""

    text: str


FromWorker = Ready | Closed | Injected | Idle | Finished | Trouble
