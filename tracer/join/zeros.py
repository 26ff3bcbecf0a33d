"""What a look would have said if all pages were zero."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property

from pd_tracer_hooks.digest.definition import bucket_edges
from pd_tracer_hooks.digest.fold import Folded
from pd_tracer_hooks.digest.pages import zero_page_digest
from pd_tracer_hooks.u64s import U64s
from tracer.join.details import folded
from tracer.join.parts import REGIONS, SideSum
from tracer.join.values import Key

#: Cells whose zeros are summed, at most: larger components are looked at cell by cell only.
MAX_CELLS = 65_536


class Zeros:
    """The values of places that hold zeros, for the layout that a signature's ``fields`` give."""

    def __init__(self, like: SideSum, fields: Mapping[str, str]) -> None:
        self._like = like
        self._segments = _segments(fields)
        self.known = bool(self._segments)
        #: Whether the component is too large for sums of zeros.
        self.too_large = len(like.layers) * like.pages > MAX_CELLS

    def get(self, key: Key) -> int | None:
        """The value of a place of zeros; None without a layout, or where it would take too long."""
        if not self.known:
            return None
        if key[0] == "cell":
            return self._page(key[2])
        sums = self._sums
        if sums is None:
            return None
        kind, number, region = key
        if kind == "bucket":
            values = sums.buckets.values()
            return values[number] if number < len(values) else None
        if kind == "row":
            rows = sums.layer_sums.values()
            return rows[len(REGIONS) * self._like.layers.index(number) + region]
        return sums.sums.values()[number]

    def _page(self, page: int) -> int:
        full, rows = self._segments[0][0], self._like.last_rows
        valid = rows if rows is not None and page == self._like.pages - 1 else full
        return zero_page_digest(*(min(valid, full) * row_bytes for _, row_bytes in self._segments))

    @cached_property
    def _sums(self) -> Folded | None:
        like = self._like
        if self.too_large or not like.layers:
            return None
        edges = bucket_edges(like.pages)
        pages = range(edges[-1])
        one_layer = bytes(U64s.of(self._page(page) for page in pages))
        part = like.parts[0].digest
        return folded(one_layer * len(like.layers), like.layers, pages, part, layer_sums=True)


def _segments(fields: Mapping[str, str]) -> list[tuple[int, int]]:
    """(rows, bytes a row) of each segment; empty if the fields do not say."""
    try:
        rows = int(fields["rows"])
        return [(rows, int(segment.rpartition(":")[2])) for segment in fields["segments"].split()]
    except (KeyError, ValueError):
        return []
