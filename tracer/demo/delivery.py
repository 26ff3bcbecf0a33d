"""One room's way through the transfer engine: parts are posted, and each is signalled behind its bytes.

This is the honest delivery. :mod:`tracer.demo.sabotage` has those that go wrong.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import msgspec

from tracer.demo.copies import Copies
from tracer.demo.engine import Link, Write
from tracer.demo.handshake import Part


@dataclass(frozen=True)
class Route:
    """Where a room goes: over ``link`` to ``peer``, as room ``index`` in ``parts`` parts."""

    link: Link
    peer: str
    index: int
    parts: int


class Delivery:
    """The parts of one room on their way to one peer. Decode takes the room when it has heard of all."""

    def __init__(self, route: Route) -> None:
        self._route = route
        self._writes: list[Write] = []

    def post(self, part: int, copies: Copies) -> None:
        """Send one part's bytes, and its signal behind them."""
        self._write(copies, part)

    def looked(self, look: str, *, last: bool) -> None:
        """Decode says that it has digested the room at ``look``, and whether that was its last one."""

    def advance(self) -> None:
        """Called over and over: do what had to wait for earlier writes."""

    @property
    def idle(self) -> bool:
        """Whether no write is under way or held back."""
        return all(write.done for write in self._writes)

    def _write(self, copies: Copies, part: int | None) -> None:
        """Post ``copies``, signalled as ``part`` (None: without a signal)."""
        if len(copies):
            signal = b"" if part is None else self._signal_of(part)
            self._writes.append(self._route.link.write(copies, self._route.peer, signal))
        elif part is not None:
            self._signal(part)

    def _signal(self, part: int) -> None:
        """Signal ``part`` as if its bytes had been written."""
        self._route.link.signal(self._route.peer, self._signal_of(part))

    def _signal_of(self, part: int) -> bytes:
        return msgspec.msgpack.encode(Part(index=self._route.index, part=part, of=self._route.parts))


#: Makes the copies of another room's bytes into pages (ordinals) of a component of this room.
ForeignCopies = Callable[[str, Sequence[int]], Copies]
