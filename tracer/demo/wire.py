"""A wire between two network namespaces that is slow and sometimes flips a bit.

``python -m tracer.demo.wire``: makes the namespaces, carries frames between them until its stdin is closed,
and removes them. One bit is flipped after so many MiB, in a word whose cell is known
(:mod:`tracer.demo.tags`), at most one a room; checksums are put right, so neither kernel nor transfer engine
can notice. Each flip goes into a log. The namespaces see the collector on their own loopback.
"""

from __future__ import annotations

import os
import random
import select
import signal
import socket
import sys
import threading
import time
from collections import deque
from contextlib import suppress
from pathlib import Path

import msgspec
from msgspec import Struct

from tracer.demo.faults import Aim
from tracer.demo.messages import Injected, Ready
from tracer.demo.netns import MTU, add_end, inside, remove_end
from tracer.demo.plan import Fault
from tracer.demo.process import OrphanedError, Pipes
from tracer.demo.tags import find

PREFILL_HOST, DECODE_HOST = "10.77.0.1", "10.77.0.2"
#: The wire's end inside each namespace.
INNER = "wire0"

_ETHERNET, _IPV4, _TCP = 14, b"\x08\x00", 6
_BUFFER = 64 << 20


class WireConfig(Struct, frozen=True, kw_only=True):
    """What the wire is told. ``intact``: indices of the rooms in which a bit may be flipped."""

    prefill: str
    decode: str
    collector_port: int
    delay_ms: float
    #: MiB between two flips; 0: none.
    flip_mib: float
    seed: int
    intact: list[int]
    log: str


def flip_in_frame(frame: bytes, place: int, bit: int) -> bytes:
    """Flip a bit of byte ``place`` of an Ethernet frame with IPv4 and TCP, and put TCP's checksum right."""
    changed = bytearray(frame)
    changed[place] ^= 1 << bit
    tcp = _ETHERNET + (frame[_ETHERNET] & 0xF) * 4
    # The sum is over 16-bit words from TCP's header on; RFC 1624 corrects it for one that changed.
    word = place - (place - tcp) % 2
    old = int.from_bytes(frame[word : word + 2].ljust(2, b"\0"), "big")
    new = int.from_bytes(bytes(changed[word : word + 2]).ljust(2, b"\0"), "big")
    checksum = int.from_bytes(frame[tcp + 16 : tcp + 18], "big")
    total = (~checksum & 0xFFFF) + (~old & 0xFFFF) + new
    total = (total & 0xFFFF) + (total >> 16)
    total = (total & 0xFFFF) + (total >> 16)
    changed[tcp + 16 : tcp + 18] = (~total & 0xFFFF).to_bytes(2, "big")
    return bytes(changed)


class Flipper:
    """Decides which frames are damaged, and logs what was done."""

    def __init__(self, config: WireConfig) -> None:
        self._every = int(config.flip_mib * (1 << 20))
        self._left = self._every
        self._rng = random.Random(config.seed)  # noqa: S311 - repeatable, nothing secret
        self._candidates = set(config.intact)
        self._log = Path(config.log)

    def pass_on(self, frame: bytes) -> bytes:
        """The frame, or another one that differs in a bit."""
        self._left -= len(frame)
        if not self._every or self._left > 0 or len(frame) < 1024 or frame[12:14] != _IPV4:
            return frame
        if frame[_ETHERNET + 9] != _TCP:
            return frame
        found = find(frame, self._rng.randrange(len(frame) // 2))
        if found is None or found[1].index not in self._candidates:
            return frame
        place, cell, number = found
        self._left += self._every
        self._candidates.discard(cell.index)
        byte, bit = self._rng.randrange(8), self._rng.randrange(8)
        hit = Aim(
            fault=Fault.wire_bit_flip,
            component=cell.component,
            layers=(cell.layer,),
            pages=(cell.page,),
            offset=number * 8 + byte,
            bit=bit,
        )
        with self._log.open("ab") as log:
            log.write(msgspec.json.encode(Injected(index=cell.index, key="", aim=hit)) + b"\n")
        return flip_in_frame(frame, place + byte, bit)


class Bridge:
    """Carries frames between two links, each way in order, ``delay_s`` later."""

    def __init__(self, prefill: str, decode: str, delay_s: float, flipper: Flipper) -> None:
        self._ends = [_packets(prefill), _packets(decode)]
        self._delay_s = delay_s
        self._flipper = flipper
        self._under_way: deque[tuple[float, socket.socket, bytes]] = deque()

    def step(self) -> None:
        """Carry what is here and due; wait a while if nothing is."""
        wait = 0.2
        if self._under_way:
            wait = max(0.0, self._under_way[0][0] - time.monotonic())
        readable, _, _ = select.select(self._ends, [], [], wait)
        for end in readable:
            self._take(end)
        now = time.monotonic()
        while self._under_way and self._under_way[0][0] <= now:
            _, end, frame = self._under_way.popleft()
            end.send(frame)

    def _take(self, end: socket.socket) -> None:
        frame, address = end.recvfrom(MTU + 100)
        if address[2] == socket.PACKET_OUTGOING:
            return  # what we sent ourselves
        from_prefill = end is self._ends[0]
        if from_prefill:
            frame = self._flipper.pass_on(frame)
        self._under_way.append((time.monotonic() + self._delay_s, self._ends[from_prefill], frame))


def _packets(interface: str) -> socket.socket:
    end = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(0x0003))
    so_sndbufforce, so_rcvbufforce = 32, 33
    end.setsockopt(socket.SOL_SOCKET, so_rcvbufforce, _BUFFER)
    end.setsockopt(socket.SOL_SOCKET, so_sndbufforce, _BUFFER)
    end.bind((interface, 0))
    return end


def _relay(namespace: str, port: int) -> None:
    """Let ``namespace`` reach the loopback ``port`` of this one under the same address."""
    server = inside(namespace, lambda: socket.create_server(("127.0.0.1", port)))

    def serve() -> None:
        while True:
            inner, _ = server.accept()
            outer = socket.create_connection(("127.0.0.1", port))
            for source, target in ((inner, outer), (outer, inner)):
                threading.Thread(target=_pump, args=(source, target), daemon=True).start()

    threading.Thread(target=serve, daemon=True).start()


def _pump(source: socket.socket, target: socket.socket) -> None:
    with suppress(OSError):
        while data := source.recv(1 << 16):
            target.sendall(data)
    with suppress(OSError):
        target.shutdown(socket.SHUT_WR)


def _end(*_: object) -> None:
    raise OrphanedError("asked to end")


def main() -> int:
    """Lay the wire that the first line describes, and carry until nobody listens."""
    pipes = Pipes()
    signal.signal(signal.SIGTERM, _end)
    config = pipes.hear(WireConfig)
    ends = ((config.prefill, PREFILL_HOST), (config.decode, DECODE_HOST))
    try:
        for name, host in ends:
            add_end(name, INNER, name, f"{host}/24")
            _relay(name, config.collector_port)
        bridge = Bridge(config.prefill, config.decode, config.delay_ms / 1e3, Flipper(config))
        pipes.say(Ready(pid=os.getpid()))
        while True:
            bridge.step()
            pipes.rest([], idle=False)
    except OrphanedError:
        return 0
    finally:
        for name, _ in ends:
            remove_end(name, name)


if __name__ == "__main__":
    status = main()
    sys.stderr.flush()
    os._exit(status)
