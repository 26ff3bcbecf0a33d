"""Which cells (a page of a layer) of a component differ: a map that stays small however large the transfer.

Pure functions. From page digests the bad cells are known one by one; from sums only the layers and the runs
of pages that hold the damage are, so cells where both meet are *suspected*: at least one of them is bad.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum

from pd_tracer_hooks.wire import Coverage
from tracer.join import intervals
from tracer.join.intervals import Spans
from tracer.join.model import ComponentVerdict, RoomVerdict

#: Most runs of one map. Beyond it pages are taken together until they fit.
MAX_RUNS = 2000
#: Most maps of one room: a transfer has a few components, and a room some transfers.
MAX_MAPS = 32


class CellState(str, Enum):
    """What is known of a cell, the worst first."""

    bad = "bad"
    suspected = "suspected"
    unknown = "unknown"
    good = "good"


#: Runs of one row: first page, number of pages, state. They follow each other from page 0 to the last.
StateRun = tuple[int, int, CellState]


@dataclass(frozen=True)
class MapRow:
    """Layers whose cells are alike, and the states of their pages."""

    layers: list[int]
    runs: list[StateRun]


@dataclass(frozen=True)
class PageMap:
    """The cells of one component of one transfer."""

    component: str
    #: Transfer key, empty where no side knows one.
    key: str
    pages: int
    #: Whether page digests told cell by cell; then no cell is merely suspected.
    exact: bool
    #: Runs begin and end at multiples of it; a block is as bad as the worst of its pages.
    grain: int
    rows: list[MapRow]


#: States of one layer: the pages that are in each. What is in none is good.
_Layer = Mapping[CellState, Spans]


def page_maps(said: RoomVerdict, k_of: Mapping[str, int]) -> list[PageMap]:
    """Maps of the components that differ in the latest attempt, transfer by transfer.

    ``k_of``: pages in the head and in the tail by component, as reported. Where it is not known, what lies
    outside the damage of a transfer that was read at its ends only is called unknown.
    """
    if not said.attempts:
        return []
    maps = [
        page_map(part, key=transfer.key, k=k_of.get(part.component, 0))
        for transfer in said.attempts[-1].transfers
        for part in transfer.components
        if part.where is not None and part.prefill.pages and part.layers
    ]
    return maps[:MAX_MAPS]


def page_map(part: ComponentVerdict, *, key: str = "", k: int = 0, most: int = MAX_RUNS) -> PageMap:
    """The map of one component that differs. Raises ``ValueError`` for one that does not."""
    where, pages = part.where, part.prefill.pages
    if where is None or not pages:
        raise ValueError(
            f"component {part.component!r} has no place of a difference: there is nothing to map"
        )
    layers = _layers(part, pages, k)
    exact = bool(where.cells) and not where.cells_left_out
    grain = 1
    while True:
        rows = _rows(layers, pages, grain)
        if sum(len(row.runs) for row in rows) <= most or grain >= pages:
            return PageMap(part.component, key, pages, exact, grain, rows)
        grain *= 2


def worst_of(runs: Sequence[StateRun], first: int, count: int) -> CellState:
    """The worst state among ``count`` pages from ``first`` on. Good where nothing is said."""
    found = {state for start, length, state in runs if start < first + count and first < start + length}
    return next((state for state in CellState if state in found), CellState.good)


def _layers(part: ComponentVerdict, pages: int, k: int) -> dict[int, _Layer]:
    """What is known of each layer that was compared.

    Sums tell that damage lies where the layers that differ meet the pages that differ; page digests tell the
    very cells. Where these are not all listed, the rest of those places stays suspected.
    """
    assert part.where is not None
    bad = {row.layer: intervals.from_runs(row.runs) for row in part.where.cells}
    suspected = intervals.shared(intervals.from_runs(part.where.page_runs), [(0, pages)])
    unread: Spans = []
    if part.coverage is not Coverage.full:
        read = intervals.merged([*suspected, *(intervals.needed(pages, k, Coverage.ends) if k else [])])
        unread = intervals.without([(0, pages)], read)
    blamed: set[int] = set()
    if not bad or part.where.cells_left_out:
        blamed = set(part.where.layers or part.layers)
    return {
        layer: {
            CellState.bad: intervals.shared(bad.get(layer, []), [(0, pages)]),
            CellState.suspected: suspected if layer in blamed else [],
            CellState.unknown: unread,
        }
        for layer in part.layers
    }


def _rows(layers: Mapping[int, _Layer], pages: int, grain: int) -> list[MapRow]:
    """Rows of ``layers``, those alike taken together, in the order of their first layer."""
    alike: dict[tuple[StateRun, ...], list[int]] = {}
    for layer in sorted(layers):
        alike.setdefault(tuple(_runs(layers[layer], pages, grain)), []).append(layer)
    return [MapRow(members, list(runs)) for runs, members in alike.items()]


def _runs(layer: _Layer, pages: int, grain: int) -> list[StateRun]:
    """The layer's states in the order of pages. Where blocks are shared, the worse state has them."""
    taken: Spans = []
    found: list[StateRun] = []
    for state in CellState:
        spans = [(0, pages)] if state is CellState.good else layer.get(state, [])
        blocks = intervals.merged(
            (low // grain * grain, min(pages, -(-high // grain) * grain)) for low, high in spans
        )
        found += [(low, high - low, state) for low, high in intervals.without(blocks, taken)]
        taken = intervals.merged([*taken, *blocks])
    return sorted(found)
