"""One side at work: its agent, its pools, the transfers it remembers."""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any

from pd_tracer_hooks.capture import ComponentLook, Look
from pd_tracer_hooks.guard import Guard
from pd_tracer_hooks.ownership import PageOwners
from pd_tracer_hooks.sglang.decode import Decode
from pd_tracer_hooks.sglang.frees import freed_pages
from pd_tracer_hooks.sglang.host_pages import on_host
from pd_tracer_hooks.sglang.later import Job, Later
from pd_tracer_hooks.sglang.observing import main_looks, runs_of, state_looks
from pd_tracer_hooks.sglang.pools import Inventory
from pd_tracer_hooks.sglang.prefill import Prefill
from pd_tracer_hooks.sglang.rooms import OwnedAt, Rooms, Transfer
from pd_tracer_hooks.wire import EventKind, Side, Stage, Want

if TYPE_CHECKING:
    from pd_tracer_hooks.agent import Agent

#: The engine's status values (KVPoll) that end a transfer.
FAILED, SUCCESS = 0, 4
#: For so long at most one answer can ask for every stage.
LONGEST_DEEP_S = 900.0
#: When a received room's rows are looked at again.
RECHECK_AFTER_S = (0.005, 0.05, 0.5)


class Session:
    """What both sides' handlers share. Made when the engine has made its transfer manager."""

    def __init__(
        self,
        *,
        side: Side,
        agent: Agent,
        inventory: Inventory,
        backend: str,
        transfer_name: str,
        guard: Guard,
    ) -> None:
        self.side = side
        self.agent = agent
        self.inventory = inventory
        self.backend = backend
        self.transfer_name = transfer_name
        self.page_size = inventory.page_size
        self.recheck_after_s = RECHECK_AFTER_S
        self._guard = guard
        #: What was not looked at, by reason.
        self.lost: dict[str, int] = {}
        self.rooms = Rooms(self._lost)
        #: Digests of host memory are computed within the call that asks for them.
        self._host_pools = all(
            on_host(tensor) for component in inventory.moved for tensor in component.pool.buffers.values()
        )
        # Frees of a device's pages are not readable on the host. Decode's pages are nobody else's, so
        # there the end of the request tells; prefill's may be shared, or duplicates that go early.
        self.owners = PageOwners(tracked=self._host_pools or side is Side.decode)
        self.later = Later(self._run_later, self._lost)
        #: Until when (monotonic) the collector wants every stage, ``allocate`` too.
        self._deep_until = 0.0
        self._stream: Any = None
        self.prefill = Prefill(self)
        self.decode = Decode(self)

    def traces(self, room: Any) -> bool:
        """Whether ``room`` is a real one. Room 0 is the health check's: the engine cannot transfer it."""
        return str(room) not in {"0", "None"}

    def wants(self, stage: Stage) -> bool:
        """Whether ``stage`` is looked at. ``allocate`` only while the collector asks for all there is."""
        return stage is not Stage.allocate or time.monotonic() < self._deep_until

    def wanted(self, wants: Sequence[Want]) -> None:
        """Take what the collector's answer asks for. Kinds that are not known here are the agent's."""
        for want in wants:
            if want.kind == "deep" and want.for_s > 0:
                self._deep_until = max(self._deep_until, time.monotonic() + min(want.for_s, LONGEST_DEEP_S))

    def event(self, kind: EventKind, transfer: Transfer, reason: str = "") -> None:
        """Report something that happened to a room."""
        self.agent.event(
            kind,
            transfer.room,
            keys=list(transfer.keys),
            request=transfer.request,
            peer=transfer.peer,
            reason=reason,
        )

    def ended(self, room: Any, kind: EventKind, reason: str) -> None:
        """Report that a transfer was aborted or failed, once."""
        transfer = self.rooms.get(room)
        if transfer is not None and not transfer.ended and transfer.done_at is None:
            transfer.ended = True
            self.event(kind, transfer, reason)

    def observe_whole(
        self,
        transfer: Transfer,
        stage: Stage,
        *,
        look: int = 0,
        signalled_at: float | None = None,
        settled_rows_only: bool = False,
    ) -> None:
        """Look at all of a transfer's pages, as they were remembered."""
        if not self.wants(stage):
            return
        looks = main_looks(
            self.inventory, transfer, transfer.pages, first=0, last=True, settled_only=settled_rows_only
        )
        looks += state_looks(self.inventory, transfer, transfer.states, settled_only=settled_rows_only)
        self._observe(transfer, stage, looks, look, signalled_at)

    def observe_part(
        self,
        transfer: Transfer,
        stage: Stage,
        pages: Sequence[int],
        states: Sequence[Sequence[int] | None],
        *,
        first: int | Sequence[int],
        last: bool,
        look: int = 0,
    ) -> None:
        """Look at one chunk. State comes with the last one. Scattered pages make a look for each run."""
        if stage is Stage.send and look == 0:
            transfer.claims.append(self.owners.claim(list(pages)))
        runs = list(runs_of(pages, first)) or [(0, [])]
        for number, (ordinal, run) in enumerate(runs):
            closing = last and number == len(runs) - 1
            looks = main_looks(self.inventory, transfer, run, first=ordinal, last=closing, settled_only=False)
            transfer.unsized = transfer.unsized or any(look.total_pages is None for look in looks)
            if closing:
                self._tell_totals(transfer, stage, looks)
                looks += state_looks(self.inventory, transfer, states, settled_only=False)
            self._observe(transfer, stage, looks, look, None)

    def status(self, room: Any, status: Any, manager: Any) -> None:
        """After the engine's ``update_status``: when it calls a transfer done, or failed."""
        transfer = self.rooms.get(room)
        if transfer is None:
            return
        if status == SUCCESS and transfer.done_at is None:
            transfer.done_at = time.time()
        elif status == FAILED:
            reason = getattr(manager, "failure_records", {}).get(room) or "the engine marked it failed"
            self.ended(room, EventKind.failed, str(reason)[:1024])

    def freed(self, lists: Any, page_size: int) -> None:
        """Before the engine takes pages back."""
        pages = freed_pages(lists, page_size)
        if pages:
            self.owners.freed(pages)

    def learn_alias(self, name: str) -> None:
        """Take note of a name by which peers call this server."""
        self.agent.learn_alias(name)

    def close(self) -> None:
        """Stop looking, and let the agent send what it has."""
        self.later.close()
        self.agent.close()

    def _tell_totals(self, transfer: Transfer, stage: Stage, looks: Sequence[ComponentLook]) -> None:
        """Say P to the looks at earlier chunks that did not know it."""
        if transfer.unsized:
            for look in looks:
                for key in transfer.keys or [""]:
                    self.agent.total(transfer.room, key, stage, look.pool.component, look.total_pages or 0)

    def _observe(
        self,
        transfer: Transfer,
        stage: Stage,
        looks: list[ComponentLook],
        look: int,
        signalled_at: float | None,
    ) -> None:
        if not looks:
            return
        owned = OwnedAt(transfer)
        tokens = None if transfer.seq_len is None else max(transfer.seq_len - transfer.prefix, 0)
        self.agent.observe(
            Look(
                room=transfer.room,
                keys=list(transfer.keys),
                stage=stage,
                look=look,
                request=transfer.request,
                trace="",
                peer=transfer.peer,
                tokens=tokens,
                signalled_at=signalled_at,
                owned=owned,
                components=looks,
            )
        )
        if self._host_pools:
            owned.freeze()

    def _run_later(self, job: Job) -> None:
        try:
            with self._beside_the_engine():
                job()
        except Exception as fault:
            self._guard.met(fault)

    def _beside_the_engine(self) -> AbstractContextManager[Any]:
        """Where looks of our own thread are launched: on the pools' device, behind nothing of the engine's.

        A new thread has device 0 and the default stream, whatever the engine's threads use.
        """
        if self._host_pools:
            return nullcontext()
        import torch  # noqa: PLC0415 - the engine's own, and only where its pools are on a device

        if self._stream is None:
            tensors = (t for c in self.inventory.moved for t in c.pool.buffers.values() if not on_host(t))
            self._stream = torch.cuda.Stream(device=next(tensors).device)  # type: ignore[no-untyped-call]
        return torch.cuda.stream(self._stream)

    def _lost(self, reason: str) -> None:
        self.lost[reason] = self.lost.get(reason, 0) + 1
