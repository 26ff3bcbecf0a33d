"""The transfer engine Mooncake, over TCP on one address, with peers that find each other by handshake.

Its writes are calls that return when the bytes are there, so they are made on a thread, in the order in
which they are posted. It has no signals: those are carried beside it, once the call has returned, as
SGLang does it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

from tracer.demo.copies import Copies
from tracer.demo.link import TransferError


class _Write:
    def __init__(self, future: Future[int], size: int, signal: bytes) -> None:
        self.future = future
        self.size = size
        self.signal = signal
        self.done = False


class MooncakeLink:
    """One process's engine; see :class:`tracer.demo.engine.Link`."""

    def __init__(self, host: str, carry: Callable[[bytes], None]) -> None:
        """Start the engine on ``host``. ``carry`` takes a signal to the peer."""
        from mooncake.engine import TransferEngine  # noqa: PLC0415 - an optional dependency

        self._engine: Any = TransferEngine()
        self._checked(self._engine.initialize(host, "P2PHANDSHAKE", "tcp", ""), f"initialize on {host}")
        self.name = f"{host}:{self._engine.get_rpc_port()}"
        self._carry = carry
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="mooncake")
        self._posted: deque[_Write] = deque()
        #: Bytes of the writes for which Mooncake returned success.
        self.bytes_moved = 0
        self.writes_done = 0
        self.signals_heard = 0

    def register(self, tensors: Iterable[Any]) -> None:
        """Make tensors reachable for transfers."""
        for tensor in tensors:
            size = tensor.numel() * tensor.element_size()
            self._checked(self._engine.register_memory(tensor.data_ptr(), size), "register_memory")

    def metadata(self) -> bytes:
        """The address at which peers shake hands."""
        return self.name.encode()

    def connect(self, metadata: bytes) -> str:
        """Mooncake shakes hands with the first write."""
        return metadata.decode()

    def write(self, copies: Copies, peer: str, signal: bytes = b"") -> _Write:
        """Post ``copies`` to ``peer``."""
        arrays = (copies.source.tolist(), copies.target.tolist(), copies.size.tolist())
        future = self._thread.submit(self._engine.batch_transfer_sync_write, peer, *arrays)
        write = _Write(future, copies.total, signal)
        self._posted.append(write)
        return write

    def signal(self, peer: str, signal: bytes) -> None:
        """Carry a signal that belongs to no write, without waiting for those that are posted."""
        self._carry(signal)

    def signals(self) -> list[bytes]:
        """None come this way."""
        return []

    def poll(self) -> bool:
        """Take note of finished writes. Raises :class:`TransferError`."""
        before = len(self._posted)
        while self._posted and self._posted[0].future.done():
            write = self._posted.popleft()
            self._checked(write.future.result(), f"a write of {write.size} bytes")
            self.bytes_moved += write.size
            self.writes_done += 1
            write.done = True
            if write.signal:
                self._carry(write.signal)
        return len(self._posted) < before

    @property
    def outstanding(self) -> int:
        """Writes that are posted and not done."""
        return len(self._posted)

    @staticmethod
    def _checked(code: int, what: str) -> None:
        if code != 0:
            raise TransferError(f"Mooncake says {code} for {what}")
