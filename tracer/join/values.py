"""What a look says of one place: a page of a layer, a bucket of pages, a layer's row, a region.

Places are named by small tuples, from the finest to the coarsest::

    ("cell", layer, page)    ("bucket", number, 0)    ("row", layer, region)    ("region", region, 0)

with regions by number as in :data:`~tracer.join.parts.REGIONS`. A look knows the value of a place only if it
read the whole of it.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from functools import cached_property

from pd_tracer_hooks.digest.definition import MASK, bucket_edges
from pd_tracer_hooks.wire import Coverage, Detail
from tracer.join import intervals
from tracer.join.details import NO_CELLS, CellMap, cell_map
from tracer.join.intervals import Spans
from tracer.join.parts import REGIONS, SideSum

#: Kind, number and, of a cell or a row, its page or region; else 0.
Key = tuple[str, int, int]

BODY = REGIONS.index("body")


class Values:
    """The values of one look; ``like`` is the look of the same component that decides what is a place.

    A look of another extent (other P, k, signature, or layers that ``like`` lacks) knows nothing.
    ``details``: page digests (worker id, detail) that may be behind it.
    """

    def __init__(self, total: SideSum, like: SideSum, details: Sequence[tuple[str, Detail]] = ()) -> None:
        self.total = total
        self._details = details
        self._layers = like.layers
        self._comparable = (
            total.problem is None
            and (total.pages, total.k, total.signatures) == (like.pages, like.k, like.signatures)
            and set(total.layers) <= set(like.layers)
        )

    @cached_property
    def cells(self) -> CellMap:
        """Page digests, where there are any. They are held against the sums, so ask only when it matters."""
        return cell_map(self.total.parts, self._details) if self._details else NO_CELLS

    def get(self, key: Key) -> int | None:
        """The raw value of a place, or None if this look does not know it."""
        if not self._comparable:
            return None
        kind, number, other = key
        if kind == "cell":
            return self.cells.digests.get((number, other))
        if kind == "bucket":
            return self._buckets.get(number)
        if kind == "row":
            return self._rows.get((number, other))
        return self._regions.get(number)

    @property
    def has_buckets(self) -> bool:
        """Whether any bucket is known."""
        return self._comparable and bool(self._buckets)

    @cached_property
    def _read(self) -> Mapping[int, Spans]:
        """Pages that were read, by layer."""
        if self.total.complete and self.total.coverage is Coverage.full:
            return {layer: [(0, self.total.pages)] for layer in self.total.layers}
        spans: dict[int, list[intervals.Span]] = {layer: [] for layer in self._layers}
        for part in self.total.parts:
            pages = intervals.from_runs(part.digest.runs)
            for layer in part.digest.layers:
                spans[layer] += pages
        return {layer: intervals.merged(read) for layer, read in spans.items()}

    def _covers(self, pages: Spans, layers: Sequence[int]) -> bool:
        return all(intervals.covers(self._read.get(layer, []), pages) for layer in layers)

    @cached_property
    def _regions(self) -> dict[int, int]:
        total = self.total
        known = {}
        for number, name in enumerate(REGIONS):
            pages = intervals.region(name, total.pages, total.k)
            whole = len(self._layers) * intervals.size(pages)
            if total.cells[number] == whole and (number != BODY or total.coverage is Coverage.full):
                known[number] = total.sums[number]
        return known

    @cached_property
    def _buckets(self) -> dict[int, int]:
        if self.total.coverage is not Coverage.full:
            return {}
        edges = bucket_edges(self.total.pages)
        count = len(edges) - 1
        sums = [0] * count
        for part in self.total.parts:
            values = part.digest.buckets.values()
            if len(values) == count:
                sums = [one + other for one, other in zip(sums, values, strict=True)]
            elif part.digest.cells[BODY]:
                return {}
        return {
            b: value & MASK
            for b, value in enumerate(sums)
            if self._covers([(edges[b], edges[b + 1])], self._layers)
        }

    @cached_property
    def _rows(self) -> dict[tuple[int, int], int]:
        total = self.total
        sums: dict[tuple[int, int], int] = {}
        for part in total.parts:
            digest = part.digest
            if len(digest.layer_sums) != 24 * len(digest.layers):
                if any(digest.cells):
                    return {}
                continue
            for layer, row in zip(digest.layers, struct.iter_unpack("<3Q", digest.layer_sums), strict=True):
                for region, value in enumerate(row):
                    sums[layer, region] = (sums.get((layer, region), 0) + value) & MASK
        regions = {i: intervals.region(name, total.pages, total.k) for i, name in enumerate(REGIONS)}
        if total.coverage is not Coverage.full:
            del regions[BODY]
        return {
            (layer, region): value
            for (layer, region), value in sums.items()
            if region in regions and self._covers(regions[region], [layer])
        }
