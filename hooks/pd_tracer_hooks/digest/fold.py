"""From page digests to the sums that travel: head, tail, body, buckets, and rows by layer.

A fold may be given any subset of a transfer's pages and layers: a chunk, a shard, a pipeline rank's
layers. The sums of disjoint subsets add up to the whole's.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from operator import index
from typing import TYPE_CHECKING

from pd_tracer_hooks.digest.backend import PageDigests
from pd_tracer_hooks.digest.definition import (
    KJ,
    KL,
    MASK,
    bucket_edges,
    cell_term,
    head_pages,
    row_term,
    tail_pages,
)
from pd_tracer_hooks.digest.mixing import load_numpy, mix
from pd_tracer_hooks.runs import Run, union
from pd_tracer_hooks.u64s import U64s

if TYPE_CHECKING:
    from pd_tracer_hooks.digest.mixing import Words


@dataclass(frozen=True)
class Folded:
    """Raw sums over one part of a transfer, as a :class:`~pd_tracer_hooks.wire.ComponentDigest` has them."""

    #: Raw cell sums of head, tail and body.
    sums: U64s
    #: Number of cells in each.
    cells: tuple[int, int, int]
    #: Raw cell sums of the body's buckets; empty unless folded at full coverage.
    buckets: U64s
    #: Raw row sums of head, tail and body, layer after layer; empty unless asked for.
    layer_sums: U64s


@dataclass(frozen=True)
class _Regions:
    """Which of the digested pages (by their place among them) belong to what."""

    head: list[int]
    tail: list[int]
    body: list[int]
    #: Bucket of each page, place by place; empty unless at full coverage.
    buckets: list[int]
    bucket_count: int


def needed_ordinals(total_pages: int, k: int, full: bool) -> list[Run]:
    """Ordinals that must be read of a transfer of ``total_pages`` pages, as runs (first, count)."""
    if full:
        return union([(0, total_pages)])
    regions = head_pages(total_pages, k), tail_pages(total_pages, k)
    return union([(region.start, len(region)) for region in regions])


def fold(
    digests: PageDigests, *, ordinals: Sequence[int], total_pages: int, k: int, full: bool, layer_sums: bool
) -> Folded:
    """Sum page digests by region.

    ``ordinals[i]`` is the place of the i-th digested page in the transfer of ``total_pages`` pages; any
    subset in any order will do. Without ``full`` there is neither body nor bucket, and pages outside
    head and tail count nowhere. Raises ``ValueError`` for ordinals that repeat, lie outside the
    transfer or are not one for each page, and for digests that are not one for each layer and page.
    """
    ordinals = list(map(index, ordinals))  # numpy's integers and arrays are welcome too
    _check(digests, ordinals, total_pages, k)
    regions = _regions(ordinals, total_pages, k, full)
    layers = len(digests.layers)
    cells = (layers * len(regions.head), layers * len(regions.tail), layers * len(regions.body))
    if load_numpy() is None:
        sums, buckets, rows = _fold_scalar(digests, ordinals, regions, layer_sums)
    else:
        sums, buckets, rows = _fold_numpy(digests, ordinals, regions, layer_sums)
    return Folded(U64s(sums), cells, U64s(buckets), U64s(rows))


def _check(digests: PageDigests, ordinals: Sequence[int], total_pages: int, k: int) -> None:
    if k < 0 or total_pages < 0:
        raise ValueError(f"k={k}, total_pages={total_pages}: neither can be negative")
    if len(ordinals) != digests.pages:
        raise ValueError(f"{len(ordinals)} ordinals for {digests.pages} pages: give one for each")
    if len(set(ordinals)) != len(ordinals):
        raise ValueError("ordinals repeat: a page counts once in a part")
    if ordinals and not (min(ordinals) >= 0 and max(ordinals) < total_pages):
        bad = next(ordinal for ordinal in ordinals if not 0 <= ordinal < total_pages)
        raise ValueError(f"ordinal {bad}: the transfer has {total_pages} pages")
    expected = 8 * len(digests.layers) * digests.pages
    if len(digests.data) != expected:
        raise ValueError(
            f"{len(digests.data)} bytes of digests: "
            f"{len(digests.layers)} layers x {digests.pages} pages take {expected}"
        )


def _regions(ordinals: Sequence[int], total_pages: int, k: int, full: bool) -> _Regions:
    head, tail = head_pages(total_pages, k), tail_pages(total_pages, k)
    edges = bucket_edges(total_pages)
    return _Regions(
        head=[place for place, ordinal in enumerate(ordinals) if ordinal in head],
        tail=[place for place, ordinal in enumerate(ordinals) if ordinal in tail],
        body=list(range(len(ordinals))) if full else [],
        buckets=[bisect_right(edges, ordinal) - 1 for ordinal in ordinals] if full else [],
        bucket_count=len(edges) - 1 if full else 0,
    )


def _fold_numpy(
    digests: PageDigests, ordinals: Sequence[int], regions: _Regions, layer_sums: bool
) -> tuple[bytes, bytes, bytes]:
    import numpy as np  # noqa: PLC0415 - an optional dependency

    def place_terms(numbers: Sequence[int], step: int) -> Words:
        terms = np.array(numbers, np.uint64)
        terms += np.uint64(1)
        terms *= np.uint64(step)
        return terms

    def region_sums(columns: Words) -> Words:
        """(..., pages) to (..., 3): head, tail, body."""
        places = regions.head, regions.tail, regions.body
        picked = [columns[..., np.array(chosen, np.intp)].sum(axis=-1, dtype=np.uint64) for chosen in places]
        return np.stack(picked, axis=-1)

    pages = np.frombuffer(digests.data, np.uint64).reshape(len(digests.layers), digests.pages)
    by_page = pages + place_terms(ordinals, KJ)
    terms = by_page + place_terms(digests.layers, KL)[:, None]
    spare = np.empty_like(terms)
    mix(terms, spare)
    columns = terms.sum(axis=0, dtype=np.uint64)
    buckets = np.zeros(regions.bucket_count, np.uint64)
    if regions.buckets:
        np.add.at(buckets, np.array(regions.buckets, np.intp), columns)
    rows = b""
    if layer_sums:
        mix(by_page, spare)
        rows = region_sums(by_page).tobytes()
    return region_sums(columns).tobytes(), buckets.tobytes(), rows


def _fold_scalar(
    digests: PageDigests, ordinals: Sequence[int], regions: _Regions, layer_sums: bool
) -> tuple[bytes, bytes, bytes]:
    values = U64s(digests.data).values()
    chosen = regions.head, regions.tail, regions.body
    sums = [0, 0, 0]
    buckets = [0] * regions.bucket_count
    rows: list[int] = []
    for number, layer in enumerate(digests.layers):
        row = values[number * digests.pages : (number + 1) * digests.pages]
        terms = [cell_term(value, at, layer) for value, at in zip(row, ordinals, strict=True)]
        for region, places in enumerate(chosen):
            sums[region] += sum(terms[place] for place in places)
        for place, bucket in enumerate(regions.buckets):
            buckets[bucket] += terms[place]
        if layer_sums:
            terms = [row_term(value, at) for value, at in zip(row, ordinals, strict=True)]
            rows += [sum(terms[place] for place in places) for places in chosen]
    packed = [U64s.of(value & MASK for value in each) for each in (sums, buckets, rows)]
    return packed[0], packed[1], packed[2]
