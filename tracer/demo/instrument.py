"""Where the demo's engine calls the hooks: the only place that knows their interface."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pd_tracer_hooks.agent import Agent
from pd_tracer_hooks.capture import ComponentLook, Look
from pd_tracer_hooks.digest.cpu import CpuBackend
from pd_tracer_hooks.identity import describe_worker
from pd_tracer_hooks.ownership import Claim, PageOwners
from pd_tracer_hooks.settings import Settings
from pd_tracer_hooks.version import __version__
from pd_tracer_hooks.wire import EventKind, Owned, Side, Stage
from tracer.demo.geometry import Shape
from tracer.demo.handshake import Open
from tracer.demo.messages import WorkerConfig
from tracer.demo.pools import Pools
from tracer.demo.timeline import OBSERVED


@dataclass(frozen=True)
class Chunk:
    """Physical ``pages`` of a component, of which the first has ordinal ``first`` in the transfer."""

    component: str
    first: int
    pages: Sequence[int]


@dataclass(frozen=True)
class RoomRef:
    """A room as one side calls it: what was opened, this side's request id, the peer's name."""

    order: Open
    request: str
    peer: str
    #: That the room's pages are its own.
    claim: Claim
    #: Whether this side's engine tells the hooks a transfer key.
    keyed: bool = True

    @property
    def keys(self) -> list[str]:
        """The transfer keys as the hooks are told them."""
        return [self.order.key] if self.keyed else []


class _OwnedAt:
    """Whether a claim held when the digest was made, which is done when its launch returns.

    The answer is asked for later, when the pages may have been freed in all order.
    """

    def __init__(self, claim: Claim) -> None:
        self._claim = claim
        self._kept: Owned | None = None

    def keep(self) -> None:
        self._kept = self._claim.owned()

    def __call__(self) -> Owned:
        return self._claim.owned() if self._kept is None else self._kept


class Instrument:
    """A worker's hooks: one call a stage."""

    def __init__(self, config: WorkerConfig, side: Side, pools: Pools, agent_name: str) -> None:
        """``agent_name``: the worker's name in the transfer engine, by which its peer calls it."""
        self._pools = pools
        self._listed = config.listed
        self._observed = OBSERVED[config.stages]
        self._owners = PageOwners()
        settings = Settings(
            url=config.collector,
            deployment=config.deployment,
            server=config.server,
            run=config.run,
            coverage="full",
            layer_sums=True,
            order_free=True,
            # A wish of the collector is heard with the next report, also of an idle worker.
            heartbeat_s=0.5,
        )
        worker = describe_worker(
            settings,
            side=side,
            nic="lo",
            engine="pd-tracer demo",
            engine_version=__version__,
            aliases=[agent_name],
        )
        # The pools lie in host memory, whatever else this machine has.
        self._agent = Agent(settings, worker, backend=CpuBackend(), model_layers=config.geometry.layers)

    def start(self) -> None:
        """Begin to report, with the manifest first."""
        self._agent.start()
        self._agent.manifest(self._pools.values(), moved=self._listed)

    def stop(self, timeout: float) -> tuple[bool, dict[str, int]]:
        """Deliver what is queued. Returns whether all of it went out, and what was lost, by reason."""
        delivered = self._agent.close(timeout)
        return delivered, dict(self._agent.stats.drops)

    def claim(self, pages: Sequence[int]) -> Claim:
        """These physical pages belong to a room from now on."""
        return self._owners.claim(pages)

    def freed(self, room: RoomRef) -> None:
        """The room's pages are about to be given back."""
        self._owners.freed(room.claim.pages)
        if Stage.admit in self._observed:  # a first installation hooks no frees
            self.event(EventKind.freed, room)

    def event(self, kind: EventKind, room: RoomRef, reason: str = "") -> None:
        """Something happened to a room."""
        self._agent.event(
            kind,
            room.order.room,
            keys=room.keys,
            request=room.request,
            trace=room.order.trace,
            peer=room.peer,
            reason=reason,
        )

    def look(
        self,
        stage: Stage,
        room: RoomRef,
        shape: Shape,
        chunks: Sequence[Chunk],
        *,
        number: int = 0,
        signalled_at: float | None = None,
    ) -> None:
        """Digest ``chunks`` of a room, which this side believes to have ``shape``, if ``stage`` is observed.

        ``number``: of the look, where a stage has several. ``signalled_at``: when the transfer was said to
        be done, in seconds of the wall clock.
        """
        if stage not in self._observed or (number and self._observed == OBSERVED["minimal"]):
            return
        owned = _OwnedAt(room.claim)
        self._agent.observe(
            Look(
                room=room.order.room,
                keys=room.keys,
                stage=stage,
                look=number,
                request=room.request,
                trace=room.order.trace,
                peer=room.peer,
                tokens=shape.tokens,
                signalled_at=signalled_at,
                owned=owned,
                components=[self._component(chunk, shape) for chunk in chunks],
            )
        )
        # In host memory the digest is done when the call returns.
        owned.keep()

    def _component(self, chunk: Chunk, shape: Shape) -> ComponentLook:
        last = chunk.first + len(chunk.pages) == shape.pages
        return ComponentLook(
            pool=self._pools[chunk.component],
            pages=chunk.pages,
            first=chunk.first,
            total_pages=shape.pages,
            last_rows=shape.last_rows if last else None,
            last=last,
        )
