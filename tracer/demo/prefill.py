"""The prefill worker: computes rooms chunk by chunk into its pool and has them written into decode's.

Where hooks are called is as in an engine: just before a chunk goes to the transfer, with the page list
that the transfer takes.
"""

from __future__ import annotations

import os
import socket
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pd_tracer_hooks.ownership import Claim
from pd_tracer_hooks.wire import EventKind, Side, Stage
from tracer.demo.allocator import PageAllocator
from tracer.demo.copies import Copies, Pages, page_copies
from tracer.demo.damage import slice_rows
from tracer.demo.delivery import Delivery, Route
from tracer.demo.engine import make_link
from tracer.demo.faults import Aim, aim
from tracer.demo.geometry import INDEX_K, KV, LAYOUTS, MLA_KV, Shape, shape_of
from tracer.demo.handshake import Aborted, Bye, Channel, Drained, Hello, Looked, Message, Open, Signal
from tracer.demo.instrument import Chunk, Instrument, RoomRef
from tracer.demo.messages import End, Finished, Idle, Injected, Ready, WorkerConfig
from tracer.demo.plan import Fault, PlannedRoom
from tracer.demo.pools import addresses, compute_rows, make_pools, page_view, tag_rows, tensors
from tracer.demo.process import Pipes
from tracer.demo.sabotage import Sabotaged, Staging
from tracer.demo.saboteur import Parcel, Saboteur
from tracer.demo.untimely import InFlight, SentEarly

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
    claim: Claim
    delivery: Delivery
    generator: torch.Generator
    next_chunk: int = 0
    #: Pages of the last chunk that were sent and are still to be computed.
    owed: Sequence[int] = ()
    reported: bool = False
    aborted: bool = False

    @property
    def computed(self) -> bool:
        """Whether every chunk that will be was computed and handed to the transfer."""
        if self.plan.fault in (Fault.aborted, Fault.aborted_in_flight):
            return self.next_chunk == 1  # the client goes away after the first
        return self.next_chunk == len(self.shape.chunks) and not self.owed


class Prefill:
    """One prefill worker with one decode peer."""

    def __init__(self, config: WorkerConfig, pipes: Pipes) -> None:
        self._config = config
        self._pipes = pipes
        self._geometry = config.geometry
        self._plans = {room.index: room for room in config.rooms}
        self._pools = make_pools(config.geometry, config.seed, config.head_slice)
        self._addresses = addresses(self._pools)
        self._allocator = PageAllocator(config.geometry.pool_pages, config.seed)
        flips = sum(room.fault is Fault.bit_flip for room in config.rooms)
        self._staging = Staging(flips, max(pool.layout.page_bytes for pool in self._pools.values()))
        self._link = make_link(
            config.engine, f"{config.server}.{os.getpid()}", config.host, carry=self._carry
        )
        self._link.register([*tensors(self._pools), self._staging.buffer])
        self._instrument = Instrument(config, Side.prefill, self._pools, self._link.name)
        self._waiting: deque[Open] = deque()
        self._active: deque[Sending] = deque()
        self._finished_pages: tuple[int, ...] = ()
        self._bye = False

    def run(self) -> Finished:
        """Serve one decode worker until it says goodbye."""
        with socket.create_server((self._config.host, 0)) as server:
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
        self._saboteur = Saboteur(self._page, self._foreign, self._staging)
        self._instrument.start()
        while not (self._bye and not self._active and not self._waiting):
            self._step()
        self._pipes.say(Idle())
        self._pipes.hear(End)
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

    def _carry(self, signal: bytes) -> None:
        """Take a signal to decode, for a transfer engine that has none of its own."""
        self._channel.send(Signal(signal=signal))

    def _hear(self, message: Message) -> None:
        if isinstance(message, Open):
            if self._plans[message.index].fault is Fault.never_sent:
                self._injected(message, Aim(fault=Fault.never_sent))
            else:
                self._waiting.append(message)
        elif isinstance(message, Looked):
            for sending in self._active:
                if sending.order.index == message.index:
                    sending.delivery.looked(message.look, last=message.last)
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
        parcel = Parcel(order, shape, pages, Route(self._link, self._peer, order.index, parts), plan.donor)
        return Sending(
            order=order,
            plan=plan,
            shape=shape,
            aim=hit,
            pages=pages,
            claim=self._instrument.claim(pages),
            delivery=self._saboteur.delivery(parcel, hit),
            generator=torch.Generator().manual_seed(plan.seed),
        )

    def _foreign(self, parcel: Parcel, name: str, ordinals: Sequence[int]) -> Copies:
        """What another room writes into the parcel's pages ``ordinals``.

        The write of the aborted room that had these pages before, if there is one; else copies of other
        pages, of a room in flight or the one that went last.
        """
        if parcel.donor >= 0:
            donor = self._in_flight(parcel.donor)
            assert donor is not None
            return donor.let_go()
        own, victim = parcel.pages, parcel.order
        others = [page for sending in self._active for page in sending.pages[: self._done_pages(sending)]]
        donors = [page for page in (*others, *self._finished_pages) if page not in own]
        if not donors:
            raise RuntimeError("no other room was computed yet")
        chosen = [donors[i % len(donors)] for i in range(len(ordinals))]
        targets = [victim.pages[ordinal] for ordinal in ordinals]
        return self._copies(name, chosen, targets, ordinals[0])

    @staticmethod
    def _done_pages(sending: Sending) -> int:
        return sum(count for _, count in sending.shape.chunks[: sending.next_chunk])

    def _page(self, parcel: Parcel, name: str, layer: int, ordinal: int) -> torch.Tensor:
        return page_view(self._pools[name], layer)[parcel.pages[ordinal]]

    def _compute(self) -> bool:
        """Compute the next chunk of the room whose turn it is, and hand it to the transfer."""
        for _ in range(len(self._active)):
            sending = self._active[0]
            self._active.rotate(-1)
            if sending.owed:
                if self._catch_up(sending):
                    return True
            elif not sending.computed:
                self._chunk(sending)
                return True
        return False

    def _chunk(self, sending: Sending) -> None:
        number, shape = sending.next_chunk, sending.shape
        first, count = shape.chunks[number]
        last = number == len(shape.chunks) - 1
        own = sending.pages[first : first + count]
        ahead = 0
        if isinstance(sending.delivery, SentEarly) and number == 0:
            ahead = sending.delivery.ahead
            sending.owed = own[:ahead]
        self._forward(sending, own[ahead:], first + ahead, shape.last_rows if last else MLA_KV.rows)
        sending.next_chunk += 1

        # kv goes chunk by chunk; index-K once, with the last chunk, over all pages.
        ranges = [(KV, first, count)]
        if last and INDEX_K in self._config.listed:
            ranges.append((INDEX_K, 0, shape.pages))
        chunks = [Chunk(name, start, sending.pages[start : start + size]) for name, start, size in ranges]
        self._instrument.look(Stage.send, self._ref(sending), shape, chunks)
        for offset, (name, start, size) in enumerate(ranges):
            end = start + size
            copies = self._copies(name, sending.pages[start:end], sending.order.pages[start:end], start)
            sending.delivery.post(number + offset, copies)

    def _forward(self, sending: Sending, pages: Sequence[int], first: int, last_rows: int) -> None:
        for pool in self._pools.values():
            if self._config.tagged:
                tag_rows(pool, sending.order.index, first, pages, last_rows)
            else:
                compute_rows(pool, pages, last_rows, sending.generator)

    def _catch_up(self, sending: Sending) -> bool:
        """Compute the pages that were sent too early, and let the hooks see what they came to hold."""
        if not sending.delivery.idle:
            return False
        self._forward(sending, sending.owed, 0, MLA_KV.rows)
        sending.owed = ()
        assert isinstance(sending.delivery, Sabotaged)
        sending.delivery.happened = True
        first, count = sending.shape.chunks[0]
        chunk = Chunk(KV, first, sending.pages[first : first + count])
        self._instrument.look(Stage.send, self._ref(sending), sending.shape, [chunk], number=1)
        return True

    def _copies(self, name: str, source: Sequence[int], target: Sequence[int], first: int) -> Copies:
        layout = self._pools[name].layout
        theirs = LAYOUTS[name]
        copies = page_copies(
            name,
            layout.page_bytes,
            Pages(self._addresses[name], source),
            Pages(self._decode.buffers[name], target),
            first,
            target_page_bytes=theirs.page_bytes,
        )
        if layout.page_bytes == theirs.page_bytes:
            return copies
        return slice_rows(copies, layout.rows, layout.segments[0].row_bytes, theirs.segments[0].row_bytes)

    def _finish(self) -> None:
        """Let go of rooms whose transfers are done."""
        for sending in list(self._active):
            delivery = sending.delivery
            delivery.advance()
            if isinstance(delivery, Sabotaged) and delivery.happened and not sending.reported:
                sending.reported = True
                self._injected(sending.order, delivery.aim)
            if not sending.computed:
                continue
            if sending.plan.fault is Fault.aborted_in_flight and not sending.aborted:
                self._abort(sending)  # nobody waits for the write
            if delivery.idle:
                self._over(sending)

    def _over(self, sending: Sending) -> None:
        """Nothing of the room is under way any more."""
        plan = sending.plan
        if plan.fault is Fault.aborted:
            self._abort(sending)
        elif plan.fault in (Fault.component_not_listed, Fault.head_slice) and sending.aim is not None:
            self._injected(sending.order, sending.aim)
        donor = self._in_flight(plan.donor)
        if donor is not None:
            donor.landed()
        self._active.remove(sending)
        ref = self._ref(sending)
        if not sending.aborted:
            chunks = [Chunk(name, 0, sending.pages) for name in self._config.listed]
            self._instrument.look(Stage.release, ref, sending.shape, chunks)
        self._instrument.freed(ref)
        self._allocator.give_back(sending.pages)
        self._finished_pages = sending.pages
        self._channel.send(Drained(index=sending.order.index))

    def _in_flight(self, index: int) -> InFlight | None:
        """The hanging write of room ``index``."""
        for sending in self._active:
            if sending.order.index == index and isinstance(sending.delivery, InFlight):
                return sending.delivery
        return None

    def _abort(self, sending: Sending) -> None:
        """Give the room up, and tell decode."""
        reason = "client disconnected"
        sending.aborted = True
        self._instrument.event(EventKind.aborted, self._ref(sending), reason)
        self._channel.send(Aborted(index=sending.order.index, reason=reason))
        assert sending.plan.fault is not None
        self._injected(sending.order, Aim(fault=sending.plan.fault))

    def _ref(self, sending: Sending) -> RoomRef:
        return RoomRef(
            sending.order,
            f"prefill-{sending.order.index}",
            self._decode.agent,
            sending.claim,
            keyed=sending.plan.fault is not Fault.room_twice_keyless,
        )

    def _injected(self, order: Open, hit: Aim) -> None:
        self._pipes.say(Injected(index=order.index, key=order.key, aim=hit))
