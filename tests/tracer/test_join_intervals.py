"""Spans against sets of integers, which are the definition."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pd_tracer_hooks.digest.definition import head_pages, tail_pages
from pd_tracer_hooks.wire import Coverage
from tracer.join import intervals
from tracer.join.intervals import Spans

spans_anyhow = st.lists(st.tuples(st.integers(0, 24), st.integers(0, 24)), max_size=6)


def _pages(spans: list[tuple[int, int]]) -> set[int]:
    return {page for low, high in spans for page in range(low, high)}


def _well_formed(spans: Spans) -> bool:
    edges = [edge for span in spans for edge in span]
    return edges == sorted(set(edges))


@given(spans_anyhow)
def test_merged_is_the_union(spans: list[tuple[int, int]]) -> None:
    merged = intervals.merged(spans)
    assert _well_formed(merged)
    assert _pages(merged) == _pages(spans)
    assert intervals.size(merged) == len(_pages(spans))
    assert intervals.from_runs(intervals.to_runs(merged)) == merged


@given(spans_anyhow, spans_anyhow)
def test_two_sets(one: list[tuple[int, int]], other: list[tuple[int, int]]) -> None:
    left, right = intervals.merged(one), intervals.merged(other)
    for result, expected in (
        (intervals.shared(left, right), _pages(left) & _pages(right)),
        (intervals.without(left, right), _pages(left) - _pages(right)),
    ):
        assert _well_formed(result)
        assert _pages(result) == expected
    assert intervals.covers(left, right) == (_pages(left) >= _pages(right))


@given(st.lists(spans_anyhow, max_size=4))
def test_first_repeat_finds_pages_that_two_pieces_share(pieces: list[list[tuple[int, int]]]) -> None:
    merged = [intervals.merged(piece) for piece in pieces]
    repeated = _pages(intervals.first_repeat(merged))
    shared = [_pages(one) & _pages(other) for i, one in enumerate(merged) for other in merged[:i]]
    assert repeated in [pages for pages in shared if pages] if any(shared) else not repeated


@pytest.mark.parametrize("k", [0, 1, 3, 8])
@pytest.mark.parametrize("pages", [0, 1, 2, 5, 6, 7, 20])
def test_regions_are_those_of_the_digest(pages: int, k: int) -> None:
    assert _pages(intervals.region("head", pages, k)) == set(head_pages(pages, k))
    assert _pages(intervals.region("tail", pages, k)) == set(tail_pages(pages, k))
    assert _pages(intervals.needed(pages, k, Coverage.full)) == set(range(pages))
    ends = set(head_pages(pages, k)) | set(tail_pages(pages, k))
    assert _pages(intervals.needed(pages, k, Coverage.ends)) == ends


def test_the_cost_does_not_depend_on_the_number_of_pages() -> None:
    pages = 1 << 24
    half = intervals.from_runs([(0, pages // 2)])
    rest = intervals.from_runs([(pages // 2, pages // 2)])
    assert intervals.merged([*half, *rest]) == [(0, pages)]
    assert intervals.without([(0, pages)], half) == rest
