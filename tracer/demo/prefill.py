"""The prefill worker: computes rooms chunk by chunk into its pool and has them written into decode's.

Where hooks are called is as in an engine: just before a chunk goes to the transfer, with the page list
that the transfer takes.
"""

from __future__ import annotations

import os
import socket
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pd_tracer_hooks.wire import EventKind, Side, Stage
from tracer.demo.allocator import PageAllocator
from tracer.demo.copies import Copies, Pages, page_copies
from tracer.demo.delivery import Delivery, Route
from tracer.demo.faults import Aim, aim
from tracer.demo.geometry import INDEX_K, KV, MLA_KV, Shape, shape_of
from tracer.demo.handshake import Aborted, Bye, Channel, Drained, Hello, Message, Open, Taken
from tracer.demo.instrument import Chunk, Instrument, RoomRef
from tracer.demo.link import Link
from tracer.demo.messages import Finished, Injected, Ready, WorkerConfig
from tracer.demo.plan import Fault, PlannedRoom
from tracer.demo.pools import addresses, compute_rows, make_pools, page_view, tensors
from tracer.demo.process import Pipes
from tracer.demo.sabotage import PLAIN, BitFlip, Overwritten, Sabotaged, Staging

if TYPE_CHECKING:
    import torch


@dataclass
class Sending:
    """A room on its way out."""

    order: Open
    plan: PlannedRoom
    shape: Shape
    aim: Aim | None
    pages: tuple[int, ...]
    delivery: Delivery
    generator: torch.Generator
    next_chunk: int = 0
    reported: bool = field(default=False)

    @property
    def computed(self) -> bool:
        """Whether every chunk that will be was computed and handed to the transfer."""
        if self.plan.fault is Fault.aborted:
            return self.next_chunk == 1  # the client goes away after the first
        return self.next_chunk == len(self.shape.chunks)


class Prefill:
    """One prefill worker with one decode peer."""

    def __init__(self, config: WorkerConfig, pipes: Pipes) -> None:
        self._config = config
        self._pipes = pipes
        self._geometry = config.geometry
        self._plans = {room.index: room for room in config.rooms}
        self._pools = make_pools(config.geometry, config.seed)
        self._addresses = addresses(self._pools)
        self._allocator = PageAllocator(config.geometry.pool_pages, config.seed)
        flips = sum(room.fault is Fault.bit_flip for room in config.rooms)
        self._staging = Staging(flips, max(pool.layout.page_bytes for pool in self._pools.values()))
        self._link = Link(f"{config.server}.{os.getpid()}")
        self._link.register([*tensors(self._pools), self._staging.buffer])
        self._instrument = Instrument(config, Side.prefill, self._pools, self._link.name)
        self._waiting: deque[Open] = deque()
        self._active: deque[Sending] = deque()
        self._finished_pages: tuple[int, ...] = ()
        self._bye = False

    def run(self) -> Finished:
        """Serve one decode worker until it says goodbye."""
        with socket.create_server(("127.0.0.1", 0)) as server:
            self._pipes.say(Ready(pid=os.getpid(), port=server.getsockname()[1]))
            self._pipes.wait(server)
            connection, _ = server.accept()
        self._channel = Channel(connection)
        self._channel.send(
            Hello(
                agent=self._link.name,
                metadata=self._link.metadata(),
                buffers=self._addresses,
                pid=os.getpid(),
            )
        )
        hello = self._channel.wait()
        assert isinstance(hello, Hello)
        self._decode = hello
        self._peer = self._link.connect(hello.metadata)
        self._instrument.start()
        while not (self._bye and not self._active and not self._waiting):
            self._step()
        delivered, drops = self._instrument.stop(self._config.flush_s)
        return Finished(
            pid=os.getpid(),
            peer_pids=(hello.pid,),
            bytes_moved=self._link.bytes_moved,
            writes=self._link.writes_done,
            signals=self._link.signals_heard,
            drops=drops,
            delivered=delivered,
        )

    def _step(self) -> None:
        """One turn of the engine's loop: hear, admit, compute one chunk, look after transfers."""
        busy = self._admit()
        busy |= self._compute()
        busy |= self._link.poll()
        self._link.signals()  # none comes this way; the call makes progress
        self._finish()
        for message in self._channel.poll():
            busy = True
            self._hear(message)
        self._pipes.rest([self._channel], idle=not busy)

    def _hear(self, message: Message) -> None:
        if isinstance(message, Open):
            if self._plans[message.index].fault is Fault.never_sent:
                self._injected(message, Aim(fault=Fault.never_sent))
            else:
                self._waiting.append(message)
        elif isinstance(message, Taken):
            for sending in self._active:
                if sending.order.index == message.index:
                    sending.delivery.taken()
        elif isinstance(message, Bye):
            self._bye = True

    def _admit(self) -> bool:
        """Start waiting rooms as long as there are pages for them."""
        started = False
        while self._waiting:
            order = self._waiting[0]
            plan = self._plans[order.index]
            short = plan.fault is Fault.count_mismatch
            # A side that counts wrong believes that the room is a page shorter.
            shape = shape_of(order.tokens - short * self._geometry.rows, self._geometry)
            pages = self._allocator.take(shape.pages)
            if pages is None:
                break
            self._waiting.popleft()
            if short:
                self._injected(order, Aim(fault=Fault.count_mismatch))
            self._active.append(self._sending(order, plan, shape, pages))
            started = True
        return started

    def _sending(self, order: Open, plan: PlannedRoom, shape: Shape, pages: tuple[int, ...]) -> Sending:
        import torch  # noqa: PLC0415 - an optional dependency

        hit = aim(plan, shape, self._geometry)
        parts = len(shape.chunks) + (INDEX_K in self._config.listed)
        return Sending(
            order=order,
            plan=plan,
            shape=shape,
            aim=hit,
            pages=pages,
            delivery=self._delivery(order, hit, parts, pages),
            generator=torch.Generator().manual_seed(plan.seed),
        )

    def _delivery(self, order: Open, hit: Aim | None, parts: int, pages: tuple[int, ...]) -> Delivery:
        route = Route(self._link, self._peer, order.index, parts)
        if hit is None:
            return Delivery(route)
        if hit.fault in PLAIN:
            return PLAIN[hit.fault](route, hit)
        if hit.fault is Fault.bit_flip:
            return BitFlip(
                route,
                hit,
                lambda name, layer, ordinal: page_view(self._pools[name], layer)[pages[ordinal]],
                self._staging,
            )
        if hit.fault is Fault.other_rooms_pages:
            return Overwritten(route, hit, lambda name, ordinals: self._foreign(order, pages, name, ordinals))
        return Delivery(route)

    def _foreign(self, victim: Open, own: tuple[int, ...], name: str, ordinals: tuple[int, ...]) -> Copies:
        """Another room's pages, aimed at the victim's: of a room in flight, or the one that went last."""
        others = [page for sending in self._active for page in sending.pages[: self._done_pages(sending)]]
        donors = [page for page in (*others, *self._finished_pages) if page not in own]
        if not donors:
            raise RuntimeError("other_rooms_pages: no other room was computed yet")
        chosen = [donors[i % len(donors)] for i in range(len(ordinals))]
        targets = [victim.pages[ordinal] for ordinal in ordinals]
        return self._copies(name, chosen, targets, ordinals[0])

    @staticmethod
    def _done_pages(sending: Sending) -> int:
        return sum(count for _, count in sending.shape.chunks[: sending.next_chunk])

    def _compute(self) -> bool:
        """Compute the next chunk of the room whose turn it is, and hand it to the transfer."""
        for _ in range(len(self._active)):
            sending = self._active[0]
            self._active.rotate(-1)
            if not sending.computed:
                self._chunk(sending)
                return True
        return False

    def _chunk(self, sending: Sending) -> None:
        number, shape = sending.next_chunk, sending.shape
        first, count = shape.chunks[number]
        last = number == len(shape.chunks) - 1
        own = sending.pages[first : first + count]
        for pool in self._pools.values():
            compute_rows(pool, own, shape.last_rows if last else MLA_KV.rows, sending.generator)
        sending.next_chunk += 1

        # kv goes chunk by chunk; index-K once, with the last chunk, over all pages.
        ranges = [(KV, first, count)]
        if last and INDEX_K in self._config.listed:
            ranges.append((INDEX_K, 0, shape.pages))
        chunks = [Chunk(name, start, sending.pages[start : start + size]) for name, start, size in ranges]
        self._instrument.look(Stage.send, self._ref(sending.order), shape, chunks)
        for offset, (name, start, size) in enumerate(ranges):
            end = start + size
            copies = self._copies(name, sending.pages[start:end], sending.order.pages[start:end], start)
            sending.delivery.post(number + offset, copies)

    def _copies(self, name: str, source: Sequence[int], target: Sequence[int], first: int) -> Copies:
        return page_copies(
            name,
            self._pools[name].layout.page_bytes,
            Pages(self._addresses[name], source),
            Pages(self._decode.buffers[name], target),
            first,
        )

    def _finish(self) -> None:
        """Let go of rooms whose transfers are done."""
        for sending in list(self._active):
            delivery = sending.delivery
            delivery.advance()
            if isinstance(delivery, Sabotaged) and delivery.happened and not sending.reported:
                sending.reported = True
                self._injected(sending.order, delivery.aim)
            if not (sending.computed and delivery.idle):
                continue
            if sending.plan.fault is Fault.aborted:
                self._abort(sending)
            elif sending.plan.fault is Fault.component_not_listed and sending.aim is not None:
                self._injected(sending.order, sending.aim)
            self._active.remove(sending)
            self._allocator.give_back(sending.pages)
            self._finished_pages = sending.pages
            self._channel.send(Drained(index=sending.order.index))

    def _abort(self, sending: Sending) -> None:
        """Give the room up, and tell decode."""
        reason = "client disconnected"
        self._instrument.event(EventKind.aborted, self._ref(sending.order), reason)
        self._channel.send(Aborted(index=sending.order.index, reason=reason))
        self._injected(sending.order, Aim(fault=Fault.aborted))

    def _ref(self, order: Open) -> RoomRef:
        return RoomRef(order, f"prefill-{order.index}", self._decode.agent)

    def _injected(self, order: Open, hit: Aim) -> None:
        self._pipes.say(Injected(index=order.index, key=order.key, aim=hit))
