"""Where a fault hits a room, and what it does to the copies of a transfer. Pure.

A fault's place is drawn from the room's seed before anything moves, so that the injector can say what it
did in the words in which the collector answers: component, layers, pages.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np
from msgspec import Struct

from tracer.demo.copies import Copies
from tracer.demo.geometry import INDEX_K, KV, LAYOUTS, Geometry, Shape
from tracer.demo.plan import Fault, PlannedRoom

#: A copy that ends early ends at such an offset: what engines split large copies into.
_ALIGNED = 4096


class Aim(Struct, frozen=True, kw_only=True):
    """Where a fault hits: the cells ``layers`` x ``pages`` of ``component`` (empty: the room as a whole).

    ``offset``: byte of the first of ``pages`` from which on the fault holds. ``bit``: of that byte.
    """

    fault: Fault
    component: str = ""
    layers: tuple[int, ...] = ()
    pages: tuple[int, ...] = ()
    offset: int = 0
    bit: int = 0


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


def _tail_unwritten(dice: _Dice) -> Aim:
    """One layer or all, from an aligned offset in a page of the last chunk on: that page is half good."""
    first = dice.rng.choice(dice.last_chunk)
    layers = dice.geometry.layer_ids(KV)
    valid = dice.rows_of(first) * LAYOUTS[KV].segments[0].row_bytes
    return Aim(
        fault=Fault.tail_unwritten,
        component=KV,
        layers=layers if dice.rng.random() < 0.5 else dice.one_layer(KV),
        pages=tuple(range(first, dice.shape.pages)),
        offset=dice.rng.randrange(0, valid, _ALIGNED),
    )


def _early_completion(dice: _Dice) -> Aim:
    """The last write of either component comes late: index-K over all pages, kv over its last chunk."""
    component = dice.component()
    return Aim(
        fault=Fault.early_completion,
        component=component,
        layers=dice.geometry.layer_ids(component),
        pages=tuple(dice.last_chunk if component == KV else range(dice.shape.pages)),
    )


def _without_index(fault: Fault) -> Callable[[_Dice], Aim]:
    def choose(dice: _Dice) -> Aim:
        return Aim(
            fault=fault,
            component=INDEX_K,
            layers=dice.geometry.layer_ids(INDEX_K),
            pages=tuple(range(dice.shape.pages)),
        )

    return choose


def _other_rooms_pages(dice: _Dice) -> Aim:
    """A few pages in a row of every layer, never all of the room."""
    component = dice.component()
    count = dice.rng.randint(1, min(4, dice.shape.pages - 1))
    first = dice.rng.randint(0, dice.shape.pages - count)
    return Aim(
        fault=Fault.other_rooms_pages,
        component=component,
        layers=dice.geometry.layer_ids(component),
        pages=tuple(range(first, first + count)),
    )


_CHOICES: dict[Fault, Callable[[_Dice], Aim]] = {
    Fault.bit_flip: _bit_flip,
    Fault.tail_unwritten: _tail_unwritten,
    Fault.early_completion: _early_completion,
    Fault.component_not_listed: _without_index(Fault.component_not_listed),
    Fault.component_withheld: _without_index(Fault.component_withheld),
    Fault.other_rooms_pages: _other_rooms_pages,
}


def cut_tail(copies: Copies, aim: Aim) -> Copies:
    """Leave out what lies behind the aim's offset: its first page goes in part, later ones not at all."""
    hit = copies.cells(aim.layers, aim.pages)
    size = copies.size.copy()
    size[hit] = 0
    size[copies.cells(aim.layers, aim.pages[:1])] = aim.offset
    cut = Copies(
        copies.component, copies.layers, copies.ordinals, copies.source, copies.target, size.astype(np.uint64)
    )
    return cut.where(cut.size > 0)


def redirect(copies: Copies, cell: Aim, source: int) -> Copies:
    """Copy the aim's one cell from address ``source`` instead of from the room's own page."""
    addresses = copies.source.copy()
    addresses[copies.cells(cell.layers, cell.pages)] = source
    return Copies(copies.component, copies.layers, copies.ordinals, addresses, copies.target, copies.size)


def flip(page: Any, cell: Aim) -> None:
    """Flip the aim's bit in ``page``, a writable array of bytes."""
    page[cell.offset] ^= 1 << cell.bit
