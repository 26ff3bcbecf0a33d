"""Which delivery a room gets, given what is to go wrong with it: the one place that maps faults to them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tracer.demo.copies import Copies
from tracer.demo.delivery import Delivery, Route
from tracer.demo.faults import Aim
from tracer.demo.geometry import Shape
from tracer.demo.handshake import Open
from tracer.demo.plan import Fault
from tracer.demo.sabotage import (
    BitFlip,
    PagesReordered,
    RowsReordered,
    Sabotaged,
    SourceChanged,
    Staging,
    TailUnwritten,
    TailZeroed,
    Withheld,
)
from tracer.demo.untimely import Early, InFlight, Overwritten, OverwrittenLater, SentEarly

if TYPE_CHECKING:
    import torch


@dataclass(frozen=True)
class Parcel:
    """A room to be delivered. ``pages``: prefill's. ``donor``: index of a room that had decode's before."""

    order: Open
    shape: Shape
    pages: Sequence[int]
    route: Route
    donor: int = -1


#: Faults of the transfer that need nothing but the aim.
_PLAIN: dict[Fault, type[Sabotaged]] = {
    Fault.tail_unwritten: TailUnwritten,
    Fault.tail_unwritten_fresh: TailUnwritten,
    Fault.component_withheld: Withheld,
    Fault.early_completion: Early,
    Fault.chunks_late: Early,
    Fault.pages_reordered: PagesReordered,
    Fault.aborted_in_flight: InFlight,
    Fault.sent_early: SentEarly,
}


class Saboteur:
    """Makes deliveries.

    ``page``: the bytes of a parcel's cell (component, layer, ordinal), writable. ``foreign``: what another
    room writes into a parcel's pages (component, ordinals).
    """

    def __init__(
        self,
        page: Callable[[Parcel, str, int, int], torch.Tensor],
        foreign: Callable[[Parcel, str, Sequence[int]], Copies],
        staging: Staging,
    ) -> None:
        self._page, self._foreign, self._staging = page, foreign, staging

    def delivery(self, parcel: Parcel, hit: Aim | None) -> Delivery:
        """The delivery for ``parcel``: an honest one where the fault is made elsewhere, or there is none."""
        route = parcel.route
        if hit is None:
            return Delivery(route)
        if hit.fault in _PLAIN:
            return _PLAIN[hit.fault](route, hit)

        def page(name: str, layer: int, ordinal: int) -> torch.Tensor:
            return self._page(parcel, name, layer, ordinal)

        def foreign(name: str, ordinals: Sequence[int]) -> Copies:
            return self._foreign(parcel, name, ordinals)

        if hit.fault is Fault.bit_flip:
            return BitFlip(route, hit, page, self._staging)
        if hit.fault is Fault.source_changed:
            return SourceChanged(route, hit, page)
        if hit.fault is Fault.tail_zeroed:
            return TailZeroed(route, hit, self._staging)
        if hit.fault is Fault.rows_reordered:
            return RowsReordered(route, hit, parcel.shape)
        if hit.fault in (Fault.other_rooms_pages, Fault.late_write):
            return Overwritten(route, hit, foreign)
        if hit.fault is Fault.overwritten:
            return OverwrittenLater(route, hit, foreign)
        return Delivery(route)
