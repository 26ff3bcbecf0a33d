"""How the pages that differ lie in the transfer, and where that coincides with the edges of chunks."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise

from tracer.join.intervals import Spans
from tracer.join.model import Shape


def shape_of(spans: Spans, pages: int, *, cells: int, of: int) -> Shape:
    """The shape of the pages ``spans`` of a transfer of ``pages`` pages.

    ``cells``: how many differ, 0 if unknown; ``of``: how many there are. One layer's pages have a shape just
    as all layers' have. ``spans`` must not be empty.
    """
    if cells == 1 and of > 1:
        return Shape.one_cell
    first, end = spans[0][0], spans[-1][1]
    if len(spans) == 1:
        if (first, end) == (0, pages):
            return Shape.whole
        if first == 0:
            return Shape.early_run
        return Shape.tail_run if end == pages else Shape.one_run
    lengths = {high - low for low, high in spans}
    steps = {later[0] - earlier[0] for earlier, later in pairwise(spans)}
    return Shape.stride if len(spans) > 2 and len(lengths) == 1 and len(steps) == 1 else Shape.scattered


def chunk_edges(spans: Spans, chunks: Iterable[tuple[int, int]], pages: int) -> list[int]:
    """Pages inside the transfer at which a run of ``spans`` and a chunk (first, end) begin or end alike."""
    edges = {edge for chunk in chunks for edge in chunk}
    return sorted(edges.intersection(inner_ends(spans, pages)))


def inner_ends(spans: Spans, pages: int) -> set[int]:
    """Where runs begin and end, but for the beginning and the end of the transfer."""
    return {edge for span in spans for edge in span} - {0, pages}
