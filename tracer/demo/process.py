"""A worker process's pipes to the one that started it, and the wait that its loop is built on."""

from __future__ import annotations

import os
import select
import socket
import sys
from collections.abc import Sequence
from typing import TypeVar

import msgspec

from tracer.demo.handshake import Channel
from tracer.demo.messages import FromWorker

T = TypeVar("T")

#: How long an idle turn of the loop sleeps: NIXL has no descriptor to wait on, so it must be asked.
_IDLE_S = 0.0004


class OrphanedError(RuntimeError):
    """The process that started this one is gone."""


class Pipes:
    """Lines to and from the starter. Whatever else prints goes to stderr, so that no line is torn."""

    def __init__(self) -> None:
        self._out = os.dup(1)
        os.dup2(2, 1)
        sys.stdout = sys.stderr

    def hear(self, kind: type[T]) -> T:
        """Block for the next line. Raises :class:`OrphanedError` at the end of the pipe."""
        line = bytearray()
        # Unbuffered, so that what select says of the descriptor holds.
        while not line.endswith(b"\n"):
            byte = os.read(0, 1)
            if not byte:
                raise OrphanedError("the pipe from the starting process is closed")
            line += byte
        return msgspec.json.decode(bytes(line), type=kind)

    def say(self, message: FromWorker) -> None:
        """Tell the starter."""
        line = msgspec.json.encode(message) + b"\n"
        while line:
            line = line[os.write(self._out, line) :]

    def rest(self, channels: Sequence[Channel], *, idle: bool) -> None:
        """End a turn of the loop: when ``idle``, sleep a little, or until a channel has something to read.

        Raises :class:`OrphanedError` when the starter is gone.
        """
        self._select([channel.fileno() for channel in channels], _IDLE_S if idle else 0)

    def wait(self, server: socket.socket) -> None:
        """Block until somebody connects to ``server``. Raises :class:`OrphanedError` as well."""
        self._select([server.fileno()], None)

    @staticmethod
    def _select(descriptors: list[int], timeout: float | None) -> None:
        readable, _, _ = select.select([0, *descriptors], [], [], timeout)
        if 0 in readable:
            raise OrphanedError("the starting process is gone")
