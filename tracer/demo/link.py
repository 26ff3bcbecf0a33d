"""The transfer engine: NIXL with its UCX backend over loopback, one agent a process.

Writes are one-sided: this process puts bytes into the other's registered memory. A signal (NIXL's
notification) travels behind the bytes of its write. Nothing here runs by itself: :meth:`NixlLink.poll` and
:meth:`NixlLink.signals` make progress, on both sides, and must be called again and again.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Any

import numpy as np

from tracer.demo.copies import Copies

#: UCX over TCP on the loopback device, so that the bytes cross a socket and not only shared memory.
ENVIRONMENT = {"UCX_TLS": "tcp", "UCX_NET_DEVICES": "lo", "NIXL_LOG_LEVEL": "WARN"}


class TransferError(RuntimeError):
    """The transfer engine reports an error."""


class _Write:
    """A write that was posted. ``done`` turns true in :meth:`NixlLink.poll`."""

    def __init__(self, handle: Any, size: int) -> None:
        self.handle = handle
        self.size = size
        self.done = False


class NixlLink:
    """One process's agent; see :class:`tracer.demo.engine.Link`."""

    def __init__(self, name: str) -> None:
        """Start the agent. :data:`ENVIRONMENT` must be set before, since UCX reads it once."""
        for variable, value in ENVIRONMENT.items():
            os.environ.setdefault(variable, value)
        from nixl_cu12._api import nixl_agent, nixl_agent_config  # noqa: PLC0415 - an optional dependency

        # No progress thread: it would spin on a whole core, and this process polls anyway.
        config = nixl_agent_config(enable_prog_thread=False, capture_telemetry=True, backends=["UCX"])
        self.name = name
        self._agent: Any = nixl_agent(name, config)
        self._posted: list[_Write] = []
        #: Bytes that NIXL's own telemetry says it moved for writes that are done.
        self.bytes_moved = 0
        self.writes_done = 0
        self.signals_heard = 0

    def register(self, tensors: Iterable[Any]) -> None:
        """Make tensors reachable for transfers, as source or as target."""
        self._agent.register_memory(list(tensors))

    def metadata(self) -> bytes:
        """What a peer needs to reach this agent's memory; take it after :meth:`register`."""
        metadata: bytes = self._agent.get_agent_metadata()
        return metadata

    def connect(self, metadata: bytes) -> str:
        """Get to know a peer; returns its name."""
        name = self._agent.add_remote_agent(metadata)
        return name.decode() if isinstance(name, bytes) else str(name)

    def write(self, copies: Copies, peer: str, signal: bytes = b"") -> _Write:
        """Post ``copies`` to ``peer``; with ``signal`` it is told once they are there. At least one copy."""
        handle = self._agent.initialize_xfer(
            "WRITE",
            self._agent.get_xfer_descs(_descriptors(copies.source, copies.size), "DRAM"),
            self._agent.get_xfer_descs(_descriptors(copies.target, copies.size), "DRAM"),
            peer,
            signal,
        )
        write = _Write(handle, copies.total)
        self._posted.append(write)
        self._settle(write, self._agent.transfer(handle))
        return write

    def signal(self, peer: str, signal: bytes) -> None:
        """Send a signal that belongs to no write."""
        self._agent.send_notif(peer, signal)

    def signals(self) -> list[bytes]:
        """Signals that came since the last call, and progress for what peers write here."""
        heard = [signal for signals in self._agent.get_new_notifs().values() for signal in signals]
        self.signals_heard += len(heard)
        return heard

    def poll(self) -> bool:
        """Make progress; whether a write was finished by it. Raises :class:`TransferError`."""
        before = len(self._posted)
        for write in list(self._posted):
            self._settle(write, self._agent.check_xfer_state(write.handle))
        return len(self._posted) < before

    @property
    def outstanding(self) -> int:
        """Writes that are posted and not done."""
        return len(self._posted)

    def _settle(self, write: _Write, state: str) -> None:
        if state == "PROC":
            return
        if state != "DONE":
            raise TransferError(f"NIXL says {state} for a write of {write.size} bytes")
        self.bytes_moved += self._agent.get_xfer_telemetry(write.handle).totalBytes
        self.writes_done += 1
        write.done = True
        self._posted.remove(write)
        self._agent.release_xfer_handle(write.handle)


def _descriptors(addresses: np.ndarray[Any, Any], sizes: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """NIXL's (address, length, device) rows."""
    return np.stack([addresses, sizes, np.zeros_like(addresses)], axis=1)
