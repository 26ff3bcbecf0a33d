"""Deliveries that go wrong, each in one way, on the bytes that really move.

The damage is done between the hooks: after prefill's pages were digested and before decode's are. The
source pages stay as they are, and neither the hooks nor the collector know of it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from tracer.demo.copies import Copies
from tracer.demo.delivery import Delivery, ForeignCopies, Route
from tracer.demo.faults import Aim, cut_tail, flip, redirect
from tracer.demo.plan import Fault

if TYPE_CHECKING:
    import torch

#: Gives the bytes of a cell (component, layer, ordinal) of the room that is sent.
ReadCell = Callable[[str, int, int], "torch.Tensor"]


class Staging:
    """Registered memory beside the pools: pages on their way through it can be damaged."""

    def __init__(self, slots: int, slot_bytes: int) -> None:
        import torch  # noqa: PLC0415 - an optional dependency

        self.buffer = torch.zeros(max(slots, 1), slot_bytes, dtype=torch.uint8)
        self._used = 0

    def take(self) -> torch.Tensor:
        """A slot, never handed out again. Raises ``RuntimeError`` when all are used."""
        if self._used == len(self.buffer):
            raise RuntimeError(f"all {self._used} staging slots are used: the plan has more bit flips")
        self._used += 1
        return self.buffer[self._used - 1]


class Sabotaged(Delivery):
    """A delivery that an aim goes for; ``happened`` is set once the damage is done."""

    def __init__(self, route: Route, aim: Aim) -> None:
        super().__init__(route)
        self.aim = aim
        self.happened = False

    def hits(self, copies: Copies) -> bool:
        """Whether ``copies`` carry a cell that is aimed at."""
        return copies.component == self.aim.component and bool(
            copies.cells(self.aim.layers, self.aim.pages).any()
        )


class BitFlip(Sabotaged):
    """The cell goes by way of a staging page, in which one bit is wrong."""

    def __init__(self, route: Route, aim: Aim, read: ReadCell, staging: Staging) -> None:
        super().__init__(route, aim)
        self._read = read
        self._staging = staging

    def post(self, part: int, copies: Copies) -> None:
        """Send all other cells from their pages."""
        if self.hits(copies):
            page = self._read(self.aim.component, self.aim.layers[0], self.aim.pages[0])
            slot = self._staging.take()
            slot[: len(page)] = page
            flip(slot, self.aim)
            copies = redirect(copies, self.aim, slot.data_ptr())
            self.happened = True
        super().post(part, copies)


class TailUnwritten(Sabotaged):
    """From an aligned offset on nothing is copied; the signal says that all of it was."""

    def post(self, part: int, copies: Copies) -> None:
        """Cut the part that holds the tail."""
        if self.hits(copies):
            copies = cut_tail(copies, self.aim)
            self.happened = True
        super().post(part, copies)


class Withheld(Sabotaged):
    """The component's part is signalled, and never written."""

    def post(self, part: int, copies: Copies) -> None:
        """Write everything but the component."""
        if self.hits(copies):
            self._signal(part)
            self.happened = True
        else:
            super().post(part, copies)


class Early(Sabotaged):
    """A part is signalled first, and written when decode has taken the room: gated, so never by luck."""

    def __init__(self, route: Route, aim: Aim) -> None:
        super().__init__(route, aim)
        self._held: Copies | None = None

    def post(self, part: int, copies: Copies) -> None:
        """Hold the part that is aimed at."""
        if self.hits(copies):
            self._signal(part)
            self._held = copies
        else:
            super().post(part, copies)

    def taken(self) -> None:
        """Now write what was held."""
        if self._held is not None:
            self._write(self._held, None)
            self._held = None
            self.happened = True

    @property
    def idle(self) -> bool:
        """Not while a part is held."""
        return self._held is None and super().idle


class Overwritten(Sabotaged):
    """When all of the room has arrived, and before decode knows, another room's bytes land in its pages."""

    def __init__(self, route: Route, aim: Aim, foreign: ForeignCopies) -> None:
        super().__init__(route, aim)
        self._foreign = foreign
        self._waiting = False

    def post(self, part: int, copies: Copies) -> None:
        """The last part goes without its signal, which the other room's write will carry."""
        last = part == self._route.parts - 1
        self._write(copies, None if last else part)
        self._waiting = last

    def advance(self) -> None:
        """Overwrite once nothing of the room's own is under way."""
        if self._waiting and super().idle:
            self._waiting = False
            self._write(self._foreign(self.aim.component, self.aim.pages), self._route.parts - 1)
            self.happened = True

    @property
    def idle(self) -> bool:
        """Not before the overwriting is done."""
        return not self._waiting and super().idle


#: Faults of the transfer that need nothing but the aim. The others are made in prefill or decode.
PLAIN: dict[Fault, type[Sabotaged]] = {
    Fault.tail_unwritten: TailUnwritten,
    Fault.component_withheld: Withheld,
    Fault.early_completion: Early,
}
