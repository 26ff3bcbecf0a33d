"""Where a fault hits a room. Pure; :mod:`tracer.demo.damage` has what it does to the copies of a transfer.

A fault's place is drawn from the room's seed before anything moves, so that the injector can say what it
did in the words in which the collector answers: component, layers, pages.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

from msgspec import Struct

from tracer.demo.geometry import INDEX_K, KV, LAYOUTS, Geometry, Shape
from tracer.demo.plan import Fault, PlannedRoom
from tracer.demo.timeline import LATE_AFTER, RECEIVE

#: A copy that ends early ends at such an offset: what engines split large copies into.
_ALIGNED = 4096


class Aim(Struct, frozen=True, kw_only=True):
    """Where a fault hits: the cells ``layers`` x ``pages`` of ``component`` (empty: the room as a whole).

    ``offset``: byte of the first of ``pages`` from which on the fault holds. ``bit``: of that byte.
    ``after``: the look of decode behind which bytes are written that should have been there, or should not
    be; one of :data:`tracer.demo.timeline.NAMES`.
    """

    fault: Fault
    component: str = ""
    layers: tuple[int, ...] = ()
    pages: tuple[int, ...] = ()
    offset: int = 0
    bit: int = 0
    after: str = ""


def aim(room: PlannedRoom, shape: Shape, geometry: Geometry) -> Aim | None:
    """Choose where the room's fault hits, or None for an intact room."""
    if room.fault is None:
        return None
    choose = _CHOICES.get(room.fault)
    if choose is None:
        return Aim(fault=room.fault)
    return choose(_Dice(room.seed, shape, geometry))


class _Dice:
    """A room's own random choices."""

    def __init__(self, seed: int, shape: Shape, geometry: Geometry) -> None:
        self.rng = random.Random(seed)  # noqa: S311 - repeatable, nothing secret
        self.shape = shape
        self.geometry = geometry
        self.last_chunk = range(shape.chunks[-1][0], shape.pages)

    def component(self) -> str:
        return self.rng.choice((KV, INDEX_K))

    def one_layer(self, component: str) -> tuple[int, ...]:
        return (self.rng.choice(self.geometry.layer_ids(component)),)

    def rows_of(self, page: int) -> int:
        return self.shape.last_rows if page == self.shape.pages - 1 else self.geometry.rows


def _bit_flip(dice: _Dice) -> Aim:
    component = dice.component()
    page = dice.rng.randrange(dice.shape.pages)
    spans = LAYOUTS[component].valid_spans(dice.rows_of(page))
    offset, length = dice.rng.choice(spans)
    return Aim(
        fault=Fault.bit_flip,
        component=component,
        layers=dice.one_layer(component),
        pages=(page,),
        offset=offset + dice.rng.randrange(length),
        bit=dice.rng.randrange(8),
    )


def _tail(fault: Fault) -> Callable[[_Dice], Aim]:
    """One layer or all, from an aligned offset in a page of the last chunk on: that page is half good."""

    def choose(dice: _Dice) -> Aim:
        first = dice.rng.choice(dice.last_chunk)
        layers = dice.geometry.layer_ids(KV)
        valid = dice.rows_of(first) * LAYOUTS[KV].segments[0].row_bytes
        return Aim(
            fault=fault,
            component=KV,
            layers=layers if dice.rng.random() < 0.5 else dice.one_layer(KV),
            pages=tuple(range(first, dice.shape.pages)),
            offset=dice.rng.randrange(0, valid, _ALIGNED),
        )

    return choose


def _early_completion(dice: _Dice) -> Aim:
    """The last write of either component comes late: index-K over all pages, kv over its last chunk."""
    component = dice.component()
    return Aim(
        fault=Fault.early_completion,
        component=component,
        layers=dice.geometry.layer_ids(component),
        pages=tuple(dice.last_chunk if component == KV else range(dice.shape.pages)),
        after=dice.rng.choice(LATE_AFTER),
    )


def _chunks_late(dice: _Dice) -> Aim:
    """Only the last chunk of kv is there in time: what is late ends on a chunk's edge."""
    return Aim(
        fault=Fault.chunks_late,
        component=KV,
        layers=dice.geometry.layer_ids(KV),
        pages=tuple(range(dice.last_chunk.start)),
        after=dice.rng.choice(LATE_AFTER),
    )


def _whole(fault: Fault, component: str) -> Callable[[_Dice], Aim]:
    def choose(dice: _Dice) -> Aim:
        return Aim(
            fault=fault,
            component=component,
            layers=dice.geometry.layer_ids(component),
            pages=tuple(range(dice.shape.pages)),
        )

    return choose


def _few_pages(fault: Fault, after: str = "") -> Callable[[_Dice], Aim]:
    """A few pages in a row of every layer, never all of the room if it has more than one page."""

    def choose(dice: _Dice) -> Aim:
        component = dice.component()
        count = dice.rng.randint(1, max(1, min(4, dice.shape.pages - 1)))
        first = dice.rng.randint(0, dice.shape.pages - count)
        return Aim(
            fault=fault,
            component=component,
            layers=dice.geometry.layer_ids(component),
            pages=tuple(range(first, first + count)),
            after=after,
        )

    return choose


def _late_write(dice: _Dice) -> Aim:
    """One chunk's worth of pages anywhere in the room: those that an aborted room had before."""
    count = dice.geometry.chunk_pages
    first = dice.rng.randint(0, dice.shape.pages - count)
    return Aim(
        fault=Fault.late_write,
        component=KV,
        layers=dice.geometry.layer_ids(KV),
        pages=tuple(range(first, first + count)),
    )


def _pages_reordered(dice: _Dice) -> Aim:
    """Two full pages change places, in every layer."""
    component = dice.component()
    return Aim(
        fault=Fault.pages_reordered,
        component=component,
        layers=dice.geometry.layer_ids(component),
        pages=tuple(sorted(dice.rng.sample(range(dice.shape.pages - 1), 2))),
    )


def _sent_early(dice: _Dice) -> Aim:
    """The first pages of the first chunk are sent before they are computed."""
    count = dice.rng.randint(1, dice.geometry.chunk_pages)
    return Aim(
        fault=Fault.sent_early,
        component=KV,
        layers=dice.geometry.layer_ids(KV),
        pages=tuple(range(count)),
    )


def _rows_reordered(dice: _Dice) -> Aim:
    return _whole(Fault.rows_reordered, dice.component())(dice)


_CHOICES: dict[Fault, Callable[[_Dice], Aim]] = {
    Fault.bit_flip: _bit_flip,
    Fault.tail_unwritten: _tail(Fault.tail_unwritten),
    Fault.tail_unwritten_fresh: _tail(Fault.tail_unwritten_fresh),
    Fault.tail_zeroed: _tail(Fault.tail_zeroed),
    Fault.early_completion: _early_completion,
    Fault.chunks_late: _chunks_late,
    Fault.component_not_listed: _whole(Fault.component_not_listed, INDEX_K),
    Fault.component_withheld: _whole(Fault.component_withheld, INDEX_K),
    Fault.other_rooms_pages: _few_pages(Fault.other_rooms_pages),
    Fault.late_write: _late_write,
    Fault.rows_reordered: _rows_reordered,
    Fault.pages_reordered: _pages_reordered,
    Fault.source_changed: _few_pages(Fault.source_changed),
    Fault.sent_early: _sent_early,
    Fault.overwritten: _few_pages(Fault.overwritten, after=RECEIVE),
    Fault.head_slice: _whole(Fault.head_slice, KV),
}


def flip(page: Any, cell: Aim) -> None:
    """Flip the aim's bit in ``page``, a writable array of bytes."""
    page[cell.offset] ^= 1 << cell.bit
