"""The decode worker: hands out pages for rooms, hears that they were written, and takes the rooms.

It also plays the router here: it opens the planned rooms in order, so many at a time.
"""

from __future__ import annotations

import os
import random
import socket
import time
from collections import deque
from dataclasses import dataclass, field

from pd_tracer_hooks.keys import transfer_key
from pd_tracer_hooks.ownership import Claim
from pd_tracer_hooks.wire import EventKind, Side, Stage
from tracer.demo.allocator import PageAllocator
from tracer.demo.engine import make_link
from tracer.demo.faults import Aim, aim
from tracer.demo.geometry import INDEX_K, KV, MLA_KV, Shape, shape_of
from tracer.demo.handshake import (
    Aborted,
    Bye,
    Channel,
    Drained,
    Hello,
    Looked,
    Message,
    Open,
    Part,
    Signal,
    part_decoder,
)
from tracer.demo.instrument import Chunk, Instrument, RoomRef
from tracer.demo.messages import Closed, End, Finished, Idle, Injected, Peers, Ready, WorkerConfig
from tracer.demo.plan import Fault, PlannedRoom
from tracer.demo.pools import addresses, make_pools, tensors, write_next_row, zero_pages
from tracer.demo.process import Pipes
from tracer.demo.timeline import LookAt, timeline


@dataclass(frozen=True)
class Source:
    """A prefill server that this worker takes rooms from."""

    channel: Channel
    hello: Hello


@dataclass
class Receiving:
    """A room that was opened and is not yet closed."""

    order: Open
    plan: PlannedRoom
    shape: Shape
    source: Source
    claim: Claim
    #: What is done to it, if something is.
    aim: Aim | None
    #: Looks still to be made, and when (after ``received``, monotonic) the pages can be freed.
    looks: deque[LookAt]
    free_after_s: float
    arrived: set[int] = field(default_factory=set)
    received: float | None = None
    ended: bool = False
    drained: bool = False
    #: Bytes are written behind the last look, so the next one waits for them: nothing hangs on luck.
    gated: bool = False

    @property
    def ref(self) -> RoomRef:
        """How the hooks are told of the room."""
        return RoomRef(
            self.order,
            f"decode-{self.order.index}",
            self.source.hello.agent,
            self.claim,
            keyed=self.plan.fault is not Fault.room_twice_keyless,
        )

    @property
    def chunks(self) -> list[Chunk]:
        """All pages of all components."""
        return [Chunk(KV, 0, self.order.pages), Chunk(INDEX_K, 0, self.order.pages)]


class Decode:
    """One decode worker with one to three prefill peers."""

    def __init__(self, config: WorkerConfig, pipes: Pipes) -> None:
        import torch  # noqa: PLC0415 - an optional dependency

        self._config = config
        self._pipes = pipes
        self._pools = make_pools(config.geometry, config.seed)
        self._allocator = PageAllocator(config.geometry.pool_pages, config.seed)
        self._nonces = random.Random(config.seed)  # noqa: S311 - tells transfers apart, hides nothing
        self._tokens = torch.Generator().manual_seed(config.seed)
        self._link = make_link(
            config.engine, f"{config.server}.{os.getpid()}", config.host, carry=self._carry
        )
        self._link.register(tensors(self._pools))
        self._instrument = Instrument(config, Side.decode, self._pools, self._link.name)
        self._waiting = list(config.rooms)
        self._open: dict[int, Receiving] = {}
        self._closed: set[int] = set()
        #: Pages of a room that was aborted, kept for the one that is to get them.
        self._handed_on: dict[int, tuple[int, ...]] = {}

    def run(self) -> Finished:
        """Take every planned room, or leave it, and say goodbye."""
        self._pipes.say(Ready(pid=os.getpid()))
        peers = self._pipes.hear(Peers)
        self._sources = {server: self._connect(peers.host, port) for server, port in peers.ports.items()}
        self._channels = [source.channel for source in self._sources.values()]
        self._instrument.start()
        while self._waiting or any(not self._stuck(room) for room in self._open.values()):
            self._step()
        for channel in self._channels:
            channel.send(Bye())
        self._pipes.say(Idle())
        self._pipes.hear(End)
        delivered, drops = self._instrument.stop(self._config.flush_s)
        return Finished(
            pid=os.getpid(),
            peer_pids=tuple(source.hello.pid for source in self._sources.values()),
            bytes_moved=self._link.bytes_moved,
            writes=self._link.writes_done,
            signals=self._link.signals_heard,
            drops=drops,
            delivered=delivered,
        )

    @staticmethod
    def _carry(signal: bytes) -> None:
        raise AssertionError("decode sends no signals")

    def _connect(self, host: str, port: int) -> Source:
        channel = Channel(socket.create_connection((host, port), timeout=10))
        hello = channel.wait()
        assert isinstance(hello, Hello)
        self._link.connect(hello.metadata)
        channel.send(
            Hello(
                agent=self._link.name,
                metadata=self._link.metadata(),
                buffers=addresses(self._pools),
                pid=os.getpid(),
            )
        )
        return Source(channel, hello)

    @staticmethod
    def _stuck(room: Receiving) -> bool:
        """Whether nothing more will ever happen to the room."""
        return room.plan.fault is Fault.never_sent

    def _step(self) -> None:
        """One turn of the engine's loop: admit, hear of bytes, hear of the rest, go on with what is here."""
        busy = self._admit()
        for signal in self._link.signals():
            busy = True
            self._arrived(part_decoder.decode(signal))
        for channel in self._channels:
            for message in channel.poll():
                busy = True
                self._hear(message)
        for room in list(self._open.values()):
            busy |= self._advance(room)
        self._pipes.rest(self._channels, idle=not busy)

    def _admit(self) -> bool:
        """Open the next room that can be: predecessor done, pages free, not too many under way."""
        underway = sum(room.received is None and not self._stuck(room) for room in self._open.values())
        if underway >= self._config.concurrency:
            return False
        for plan in self._waiting:
            if plan.after >= 0 and plan.after not in self._closed:
                continue
            together = [plan, *(other for other in self._waiting if other.beside == plan.index)]
            wanted = sum(self._pages_wanted(each) for each in together)
            if wanted > self._allocator.free:
                return False
            for each in together:
                self._waiting.remove(each)
                self._begin(each)
            return True
        return False

    def _pages_wanted(self, plan: PlannedRoom) -> int:
        handed_on = self._handed_on.get(plan.index, ())
        return shape_of(plan.tokens, self._config.geometry).pages - len(handed_on)

    def _begin(self, plan: PlannedRoom) -> None:
        shape = shape_of(plan.tokens, self._config.geometry)
        hit = aim(plan, shape, self._config.geometry)
        pages = self._allocator.take(self._pages_wanted(plan))
        assert pages is not None
        if hit is not None and plan.index in self._handed_on:
            first = hit.pages[0]
            pages = (*pages[:first], *self._handed_on.pop(plan.index), *pages[first:])
        if plan.fault is Fault.tail_unwritten_fresh:
            zero_pages(self._pools, pages)
        source = self._sources[plan.prefill]
        key = transfer_key(session=self._link.name, pages=pages, nonce=self._nonces.getrandbits(64))
        order = Open(
            index=plan.index, room=plan.room, tokens=plan.tokens, pages=pages, key=key, trace=plan.trace
        )
        times = timeline(plan, self._config.stages)
        claim = self._instrument.claim(pages)
        room = Receiving(
            order, plan, shape, source, claim, hit, deque(times.looks), free_after_s=times.free_after_s
        )
        self._open[plan.index] = room
        # What lies there before the pages are handed out.
        self._instrument.look(Stage.allocate, room.ref, shape, room.chunks)
        self._instrument.event(EventKind.opened, room.ref)
        source.channel.send(order)
        if plan.fault is Fault.room_twice_keyless:
            self._pipes.say(Injected(index=plan.index, key=key, aim=Aim(fault=plan.fault)))

    def _arrived(self, part: Part) -> None:
        """The transfer engine says that a part is there: with the last of them the room can be taken."""
        room = self._open.get(part.index)
        if room is None or room.ended:
            return  # it was aborted meanwhile
        room.arrived.add(part.part)
        if len(room.arrived) < part.of:
            return
        room.ended = True
        room.received = time.monotonic()
        if room.plan.fault is Fault.never_received:
            # The scheduler lost it: nobody ever reads its pages.
            room.looks.clear()
            hit = Aim(fault=Fault.never_received)
            self._pipes.say(Injected(index=part.index, key=room.order.key, aim=hit))

    def _hear(self, message: Message) -> None:
        if isinstance(message, Signal):
            self._link.signals_heard += 1
            self._arrived(part_decoder.decode(message.signal))
        elif isinstance(message, Aborted):
            self._aborted(self._open[message.index], message.reason)
        elif isinstance(message, Drained):
            room = self._open.get(message.index)
            if room is not None:
                room.drained = True

    def _aborted(self, room: Receiving, reason: str) -> None:
        room.ended = True
        room.received = time.monotonic()
        room.looks.clear()
        room.free_after_s = 0.0
        self._instrument.event(EventKind.aborted, room.ref, reason)
        if room.plan.fault is not Fault.aborted_in_flight:
            return
        # Freed at once, although a write may still be on its way: the next room gets these pages.
        victim = next(plan for plan in self._waiting if plan.donor == room.plan.index)
        self._close(room)
        pages = room.order.pages[: self._config.geometry.chunk_pages]
        self._handed_on[victim.index] = self._allocator.take_these(pages)

    def _advance(self, room: Receiving) -> bool:
        """Make the look that is due, or close the room when it is over. Says whether something was done."""
        if room.received is None or (room.gated and not room.drained):
            return False
        waited = time.monotonic() - room.received
        if room.looks:
            if waited < room.looks[0].after_s:
                return False
            self._look(room, room.looks.popleft())
            return True
        if waited < room.free_after_s or not room.drained:
            return False
        self._close(room)
        return True

    def _look(self, room: Receiving, look: LookAt) -> None:
        """Digest the room as an engine's hooks do at this point of its life."""
        signalled = time.time() if look.stage is Stage.receive else None
        self._instrument.look(
            look.stage, room.ref, room.shape, room.chunks, number=look.number, signalled_at=signalled
        )
        if look.stage is Stage.admit and room.shape.last_rows < MLA_KV.rows:
            write_next_row(self._pools, room.order.pages[-1], room.shape.last_rows, self._tokens)
        last = not room.looks
        if room.aim is not None and room.aim.after and (look.name == room.aim.after or last):
            room.gated = True
        room.source.channel.send(Looked(index=room.order.index, look=look.name, last=last))

    def _close(self, room: Receiving) -> None:
        """Free the pages."""
        index = room.order.index
        self._instrument.freed(room.ref)
        del self._open[index]
        self._closed.add(index)
        self._allocator.give_back(room.order.pages)
        self._pipes.say(Closed(index=index))
