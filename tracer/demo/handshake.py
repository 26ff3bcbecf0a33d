"""What decode and prefill say to each other beside the bytes: framed messages over a loopback socket."""

from __future__ import annotations

import socket
import struct
from collections.abc import Iterator
from contextlib import suppress

import msgspec
from msgspec import Struct

_LENGTH = struct.Struct("<I")
#: Longest message taken: a page table of a large room and an agent's metadata are far below.
_MAX = 1 << 24


class PeerClosedError(ConnectionError):
    """The other side closed the connection."""


class Hello(Struct, frozen=True, kw_only=True, tag=True):
    """Either side, first: its name in the transfer engine, how to reach its memory, where its buffers lie.

    ``buffers``: component -> layer -> address in that process. ``pid`` shows that these are two processes.
    """

    agent: str
    metadata: bytes
    buffers: dict[str, dict[int, int]]
    pid: int


class Open(Struct, frozen=True, kw_only=True, tag=True):
    """Decode to prefill: send this room into these pages. ``key`` is the transfer key decode computed."""

    index: int
    room: str
    tokens: int
    pages: tuple[int, ...]
    key: str
    trace: str = ""


class Looked(Struct, frozen=True, kw_only=True, tag=True):
    """Decode to prefill: the room was digested, at ``look`` (of :data:`tracer.demo.timeline.NAMES`).

    ``last``: no further look will follow.
    """

    index: int
    look: str
    last: bool


class Signal(Struct, frozen=True, kw_only=True, tag=True):
    """Prefill to decode, where the transfer engine carries no signals: what it would have carried."""

    signal: bytes


class Aborted(Struct, frozen=True, kw_only=True, tag=True):
    """Prefill to decode: the room will not be completed."""

    index: int
    reason: str


class Drained(Struct, frozen=True, kw_only=True, tag=True):
    """Prefill to decode: no write into this room's pages is outstanding, they can be freed."""

    index: int


class Bye(Struct, frozen=True, kw_only=True, tag=True):
    """Decode to prefill: no room will follow."""


Message = Hello | Open | Looked | Signal | Aborted | Drained | Bye

_decoder = msgspec.msgpack.Decoder(Message)


class Part(Struct, frozen=True, kw_only=True, array_like=True):
    """A completion signal, which the transfer engine carries behind the bytes: this part is there."""

    index: int
    part: int
    of: int


part_decoder = msgspec.msgpack.Decoder(Part)


def frame(message: Message) -> bytes:
    """A message as it travels: its length, then its fields in msgpack."""
    body = msgspec.msgpack.encode(message)
    return _LENGTH.pack(len(body)) + body


class Channel:
    """Messages over a connected socket: sends block, reads take what has arrived."""

    def __init__(self, connection: socket.socket) -> None:
        self._socket = connection
        self._buffer = bytearray()
        connection.settimeout(None)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def fileno(self) -> int:
        """The socket's descriptor, for ``select``."""
        return self._socket.fileno()

    def send(self, message: Message) -> None:
        """Send a message whole."""
        self._socket.sendall(frame(message))

    def wait(self) -> Message:
        """Block for the next message; for the greeting, when nothing else can be done."""
        while True:
            for message in self._complete():
                return message
            self._read()

    def poll(self) -> Iterator[Message]:
        """Messages that have come, without waiting for any."""
        with suppress(BlockingIOError):
            self._read(socket.MSG_DONTWAIT)
        yield from self._complete()

    def _read(self, flags: int = 0) -> None:
        data = self._socket.recv(1 << 16, flags)
        if not data:
            raise PeerClosedError("the other process closed its control channel")
        self._buffer += data

    def _complete(self) -> Iterator[Message]:
        while len(self._buffer) >= _LENGTH.size:
            (length,) = _LENGTH.unpack_from(self._buffer)
            if length > _MAX:
                raise ValueError(f"a control message of {length} bytes: at most {_MAX}")
            end = _LENGTH.size + length
            if len(self._buffer) < end:
                return
            body = bytes(self._buffer[_LENGTH.size : end])
            del self._buffer[:end]
            yield _decoder.decode(body)
