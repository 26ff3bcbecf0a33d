"""Deliveries that carry the wrong bytes, each in one way, on the bytes that really move.

The damage is done between the hooks: after prefill's pages were digested and before decode's are. The
source pages stay as they are (but for :class:`SourceChanged`), and neither the hooks nor the collector know
of it. :mod:`tracer.demo.untimely` has the deliveries whose bytes come at the wrong time.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from tracer.demo.copies import Copies
from tracer.demo.damage import cut_tail, joined, redirect, reverse_rows, swap_pages, zero_tail
from tracer.demo.delivery import Delivery, Route
from tracer.demo.faults import Aim, flip
from tracer.demo.geometry import LAYOUTS, Shape

if TYPE_CHECKING:
    import torch

#: Gives the bytes of a cell (component, layer, ordinal) of the room that is sent.
ReadCell = Callable[[str, int, int], "torch.Tensor"]


class Staging:
    """Registered memory beside the pools: pages on their way through it can be damaged."""

    def __init__(self, slots: int, slot_bytes: int) -> None:
        import torch  # noqa: PLC0415 - an optional dependency

        #: The slots, and behind them a page of zeros.
        self.buffer = torch.zeros(slots + 1, slot_bytes, dtype=torch.uint8)
        self._used = 0

    @property
    def zeros(self) -> int:
        """Address of a page of zeros."""
        address: int = self.buffer[-1].data_ptr()
        return address

    def take(self) -> torch.Tensor:
        """A slot, never handed out again. Raises ``RuntimeError`` when all are used."""
        if self._used == len(self.buffer) - 1:
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


class TailZeroed(Sabotaged):
    """From an aligned offset on zeros are copied; the signal says that all is well."""

    def __init__(self, route: Route, aim: Aim, staging: Staging) -> None:
        super().__init__(route, aim)
        self._zeros = staging.zeros

    def post(self, part: int, copies: Copies) -> None:
        """Take the tail from a page of zeros."""
        if self.hits(copies):
            copies = zero_tail(copies, self.aim, self._zeros)
            self.happened = True
        super().post(part, copies)


class RowsReordered(Sabotaged):
    """The layout is read another way: every page's rows arrive in reverse order."""

    def __init__(self, route: Route, aim: Aim, shape: Shape) -> None:
        super().__init__(route, aim)
        self._shape = shape

    def post(self, part: int, copies: Copies) -> None:
        """Copy row by row."""
        if self.hits(copies):
            layout = LAYOUTS[copies.component]
            copies = reverse_rows(copies, layout, self._shape.pages, self._shape.last_rows)
            self.happened = True
        super().post(part, copies)


class PagesReordered(Sabotaged):
    """Two pages arrive in each other's place. They may belong to two chunks, so kv goes once all is there."""

    def __init__(self, route: Route, aim: Aim) -> None:
        super().__init__(route, aim)
        self._parts: list[tuple[int, Copies]] = []
        self._pages: set[int] = set()

    def post(self, part: int, copies: Copies) -> None:
        """Keep the component's parts until they have both pages."""
        if copies.component != self.aim.component or self.happened:
            super().post(part, copies)
            return
        self._parts.append((part, copies))
        self._pages.update(copies.ordinals.tolist())
        if self._pages.issuperset(self.aim.pages):
            everything = joined(*(copies for _, copies in self._parts))
            for early, _ in self._parts[:-1]:
                self._signal(early)
            self._write(swap_pages(everything, self.aim), part)
            self._parts.clear()
            self.happened = True

    @property
    def idle(self) -> bool:
        """Not while parts are kept."""
        return not self._parts and super().idle


class SourceChanged(Sabotaged):
    """The source is written to when its digest is made, and before it is read."""

    def __init__(self, route: Route, aim: Aim, read: ReadCell) -> None:
        super().__init__(route, aim)
        self._read = read

    def post(self, part: int, copies: Copies) -> None:
        """Let somebody else's forward write to the pages first."""
        if self.hits(copies):
            here = set(copies.ordinals.tolist())
            for layer in self.aim.layers:
                for ordinal in here.intersection(self.aim.pages):
                    self._read(self.aim.component, layer, ordinal).random_(0, 256)
            self.happened = True
        super().post(part, copies)
