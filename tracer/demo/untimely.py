"""Deliveries whose bytes come at the wrong time: before the data is there, too late, or into other's pages.

All are gated: what must come behind something waits for it, so that nothing here depends on luck.
"""

from __future__ import annotations

from tracer.demo.copies import Copies
from tracer.demo.delivery import ForeignCopies, Route
from tracer.demo.faults import Aim
from tracer.demo.sabotage import Sabotaged


class Early(Sabotaged):
    """Parts are signalled first, and written when decode has looked at the room."""

    def __init__(self, route: Route, aim: Aim) -> None:
        super().__init__(route, aim)
        self._held: list[Copies] = []

    def post(self, part: int, copies: Copies) -> None:
        """Hold the parts that are aimed at."""
        if self.hits(copies):
            self._signal(part)
            self._held.append(copies)
        else:
            super().post(part, copies)

    def looked(self, look: str, *, last: bool) -> None:
        """Now write what was held, if this is the look to be behind."""
        if look == self.aim.after or last:
            for copies in self._held:
                self._write(copies, None)
                self.happened = True
            self._held.clear()

    @property
    def idle(self) -> bool:
        """Not while a part is held."""
        return not self._held and super().idle


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


class OverwrittenLater(Sabotaged):
    """Another room's bytes land in the room's pages when decode has received it."""

    def __init__(self, route: Route, aim: Aim, foreign: ForeignCopies) -> None:
        super().__init__(route, aim)
        self._foreign = foreign

    def looked(self, look: str, *, last: bool) -> None:
        """Overwrite, once, behind the look that is aimed at."""
        if not self.happened and (look == self.aim.after or last):
            self._write(self._foreign(self.aim.component, self.aim.pages), None)
            self.happened = True

    @property
    def idle(self) -> bool:
        """Not before the overwriting is done."""
        return self.happened and super().idle


class InFlight(Sabotaged):
    """The first part of a room that is given up: its write hangs until another room has got its pages."""

    def __init__(self, route: Route, aim: Aim) -> None:
        super().__init__(route, aim)
        self._held: Copies | None = None
        self._landed = False

    def post(self, part: int, copies: Copies) -> None:
        """Hold it."""
        self._held = copies

    def let_go(self) -> Copies:
        """The write goes on its way now: by the hand of whoever waits to see it done."""
        assert self._held is not None
        return self._held

    def landed(self) -> None:
        """The write is done."""
        self._landed = True

    @property
    def idle(self) -> bool:
        """Not before the write has landed."""
        return self._landed and super().idle


class SentEarly(Sabotaged):
    """The room's first pages are handed over before they are computed. Prefill asks for :attr:`ahead`."""

    @property
    def ahead(self) -> int:
        """Pages of the first chunk that are sent first and computed when that is done."""
        return len(self.aim.pages)
