"""The decode worker: hands out pages for rooms, hears that they were written, and takes the rooms.

It also plays the router here: it opens the planned rooms in order, so many at a time.
"""

from __future__ import annotations

import os
import random
import socket
import time
from dataclasses import dataclass, field

from pd_tracer_hooks.keys import transfer_key
from pd_tracer_hooks.wire import EventKind, Side, Stage
from tracer.demo.allocator import PageAllocator
from tracer.demo.faults import Aim
from tracer.demo.geometry import INDEX_K, KV, Shape, shape_of
from tracer.demo.handshake import (
    Aborted,
    Bye,
    Channel,
    Drained,
    Hello,
    Message,
    Open,
    Part,
    Taken,
    part_decoder,
)
from tracer.demo.instrument import Chunk, Instrument, RoomRef
from tracer.demo.link import Link
from tracer.demo.messages import Closed, Finished, Injected, Peers, Ready, WorkerConfig
from tracer.demo.plan import Fault, PlannedRoom
from tracer.demo.pools import addresses, make_pools, tensors
from tracer.demo.process import Pipes


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
    arrived: set[int] = field(default_factory=set)
    ended: bool = False
    drained: bool = False

    @property
    def ref(self) -> RoomRef:
        """How the hooks are told of the room."""
        return RoomRef(self.order, f"decode-{self.order.index}", self.source.hello.agent)


class Decode:
    """One decode worker with one or two prefill peers."""

    def __init__(self, config: WorkerConfig, pipes: Pipes) -> None:
        self._config = config
        self._pipes = pipes
        self._pools = make_pools(config.geometry, config.seed)
        self._allocator = PageAllocator(config.geometry.pool_pages, config.seed)
        self._nonces = random.Random(config.seed)  # noqa: S311 - tells transfers apart, hides nothing
        self._link = Link(f"{config.server}.{os.getpid()}")
        self._link.register(tensors(self._pools))
        self._instrument = Instrument(config, Side.decode, self._pools, self._link.name)
        self._waiting = list(config.rooms)
        self._open: dict[int, Receiving] = {}
        self._closed: set[int] = set()

    def run(self) -> Finished:
        """Take every planned room, or leave it, and say goodbye."""
        self._pipes.say(Ready(pid=os.getpid()))
        peers = self._pipes.hear(Peers)
        self._sources = {server: self._connect(port) for server, port in peers.ports.items()}
        self._channels = [source.channel for source in self._sources.values()]
        self._instrument.start()
        while self._waiting or any(not self._stuck(room) for room in self._open.values()):
            self._step()
        for channel in self._channels:
            channel.send(Bye())
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

    def _connect(self, port: int) -> Source:
        channel = Channel(socket.create_connection(("127.0.0.1", port), timeout=10))
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
        """One turn of the engine's loop: admit, hear of bytes, hear of the rest."""
        busy = self._admit()
        for signal in self._link.signals():
            busy = True
            self._arrived(part_decoder.decode(signal))
        for channel in self._channels:
            for message in channel.poll():
                busy = True
                self._hear(message)
        self._pipes.rest(self._channels, idle=not busy)

    def _admit(self) -> bool:
        """Open the next room that can be: predecessor done, pages free, not too many open."""
        underway = sum(not self._stuck(room) for room in self._open.values())
        if underway >= self._config.concurrency:
            return False
        for plan in self._waiting:
            if plan.after >= 0 and plan.after not in self._closed:
                continue
            shape = shape_of(plan.tokens, self._config.geometry)
            pages = self._allocator.take(shape.pages)
            if pages is None:
                return False
            self._waiting.remove(plan)
            self._begin(plan, shape, pages)
            return True
        return False

    def _begin(self, plan: PlannedRoom, shape: Shape, pages: tuple[int, ...]) -> None:
        source = self._sources[plan.prefill]
        key = transfer_key(session=self._link.name, pages=pages, nonce=self._nonces.getrandbits(64))
        order = Open(
            index=plan.index, room=plan.room, tokens=plan.tokens, pages=pages, key=key, trace=plan.trace
        )
        room = Receiving(order, plan, shape, source)
        self._open[plan.index] = room
        self._instrument.event(EventKind.opened, room.ref)
        source.channel.send(order)

    def _arrived(self, part: Part) -> None:
        """The transfer engine says that a part is there: with the last of them the room can be taken."""
        room = self._open.get(part.index)
        if room is None or room.ended:
            return  # it was aborted meanwhile
        room.arrived.add(part.part)
        if len(room.arrived) < part.of:
            return
        room.ended = True
        if room.plan.fault is Fault.never_received:
            # The scheduler lost it: its pages stay taken, nobody reads them.
            hit = Aim(fault=Fault.never_received)
            self._pipes.say(Injected(index=part.index, key=room.order.key, aim=hit))
        else:
            self._take(room)
        self._close_if_over(room)

    def _take(self, room: Receiving) -> None:
        """Take the room over, as an engine commits a transfer to its request."""
        pages = room.order.pages
        chunks = [Chunk(KV, 0, pages), Chunk(INDEX_K, 0, pages)]
        self._instrument.look(Stage.receive, room.ref, room.shape, chunks, signalled_at=time.time())
        room.source.channel.send(Taken(index=room.order.index))

    def _hear(self, message: Message) -> None:
        if isinstance(message, Aborted):
            room = self._open[message.index]
            room.ended = True
            self._instrument.event(EventKind.aborted, room.ref, message.reason)
        elif isinstance(message, Drained):
            room = self._open[message.index]
            room.drained = True
            self._close_if_over(room)

    def _close_if_over(self, room: Receiving) -> None:
        """Free the pages when the room has ended and no write into them is outstanding."""
        if room.ended and room.drained:
            index = room.order.index
            del self._open[index]
            self._closed.add(index)
            self._allocator.give_back(room.order.pages)
            self._pipes.say(Closed(index=index))
