"""Two sides' sums of one component, compared, and the difference located as closely as they allow."""

from __future__ import annotations

import struct
from collections.abc import Sequence

from pd_tracer_hooks.digest.definition import MASK, bucket_edges, final, hex64
from pd_tracer_hooks.wire import Coverage
from tracer.join import intervals
from tracer.join.intervals import Spans
from tracer.join.model import Where
from tracer.join.parts import REGIONS, SideSum
from tracer.join.wording import join_words, layers_text, pages_text


def common_coverage(left: SideSum, right: SideSum) -> Coverage:
    """The lesser of both sides' coverage."""
    full = left.coverage is Coverage.full and right.coverage is Coverage.full
    return Coverage.full if full else Coverage.ends


def differing_regions(left: SideSum, right: SideSum, coverage: Coverage) -> list[str]:
    """Names of the regions whose sums differ. Raw sums over as many cells differ just when finals do."""
    compared = REGIONS if coverage is Coverage.full else REGIONS[:2]
    return [name for i, name in enumerate(compared) if left.sums[i] != right.sums[i]]


def finals(sums: Sequence[int], cells: Sequence[int], coverage: Coverage) -> dict[str, str]:
    """Finals of the regions that have cells, as 16 hex digits. ``sums``, ``cells``: head, tail, body."""
    shown = {}
    for name, raw, count in zip(REGIONS, sums, cells, strict=True):
        if count and (name != "body" or coverage is Coverage.full):
            shown[name] = hex64(final(raw, count))
    return shown


def locate(left: SideSum, right: SideSum, regions: list[str], coverage: Coverage) -> Where:
    """Where two complete sides differ, given the regions that do."""
    return Where(
        regions=regions,
        layers=_layers(left, right, regions),
        page_runs=intervals.to_runs(_pages(left, right, regions, coverage)),
    )


def describe(where: Where, pages: int, k: int) -> str:
    """The place of a difference as a sentence.

    Damage in the head or the tail is damage in the body as well; the body is named only where there is more.
    """
    spans = intervals.from_runs(where.page_runs)
    ends = [name for name in where.regions if name != "body"]
    inside = intervals.merged(span for name in ends for span in intervals.region(name, pages, k))
    named = ends if intervals.covers(inside, spans) else where.regions
    verb = "differs" if len(named) == 1 else "differ"
    layers = f" in {layers_text(where.layers)}" if where.layers else ""
    return f"{join_words(named)} {verb}{layers}, {pages_text(spans)} of {pages}"


def _pages(left: SideSum, right: SideSum, regions: Sequence[str], coverage: Coverage) -> Spans:
    """Pages that hold the difference: differing buckets, or regions, without what is known to be equal."""

    def span(names: Sequence[str]) -> Spans:
        return intervals.merged(s for name in names for s in intervals.region(name, left.pages, left.k))

    suspects = span(regions)
    if coverage is Coverage.full:
        suspects = _bucket_pages(left, right) or suspects
    equal = [name for name in ("head", "tail") if name not in regions]
    return intervals.without(suspects, span(equal)) or span(regions)


def _bucket_pages(left: SideSum, right: SideSum) -> Spans:
    """Pages of the differing buckets; empty when a side did not send all of its buckets."""
    edges = bucket_edges(left.pages)
    ours, theirs = _buckets(left, len(edges) - 1), _buckets(right, len(edges) - 1)
    if not ours or not theirs:
        return []
    return intervals.merged(
        (edges[b], edges[b + 1])
        for b, (one, other) in enumerate(zip(ours, theirs, strict=True))
        if one != other
    )


def _buckets(side: SideSum, count: int) -> list[int]:
    total = [0] * count
    for part in side.parts:
        values = part.digest.buckets.values()
        if len(values) != count:
            if part.digest.cells[2]:
                return []
            continue  # a part without cells has nothing to add
        total = [one + other for one, other in zip(total, values, strict=True)]
    return [value & MASK for value in total]


def _layers(left: SideSum, right: SideSum, regions: Sequence[str]) -> list[int]:
    """Layers whose row sums differ; empty when a side did not send all of its row sums."""
    ours, theirs = _row_sums(left), _row_sums(right)
    if ours is None or theirs is None:
        return []
    columns = [REGIONS.index(name) for name in regions]
    return [layer for layer in left.layers if any(ours[layer][c] != theirs[layer][c] for c in columns)]


def _row_sums(side: SideSum) -> dict[int, list[int]] | None:
    """Row sums of head, tail and body by layer, or None if a part came without."""
    total: dict[int, list[int]] = {layer: [0, 0, 0] for layer in side.layers}
    for part in side.parts:
        digest = part.digest
        if len(digest.layer_sums) != 24 * len(digest.layers):
            if any(digest.cells):
                return None
            continue
        for layer, row in zip(digest.layers, struct.iter_unpack("<3Q", digest.layer_sums), strict=True):
            mine = total[layer]
            for region, value in enumerate(row):
                mine[region] = (mine[region] + value) & MASK
    return total
