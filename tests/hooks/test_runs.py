"""Runs of pages: there and back, and as sets."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.digests import bounded

from pd_tracer_hooks.runs import Run, count, expand, runs_of, union


@pytest.mark.parametrize(
    ("pages", "runs"),
    [
        ([], []),
        ([0], [(0, 1)]),
        ([0, 1, 2], [(0, 3)]),
        ([4, 5, 9, 3, 4], [(4, 2), (9, 1), (3, 2)]),
        ([2, 2], [(2, 1), (2, 1)]),
        ([3, 2, 1], [(3, 1), (2, 1), (1, 1)]),
    ],
)
def test_runs_of(pages: list[int], runs: list[Run]) -> None:
    assert runs_of(pages) == runs


@bounded(100)
@given(pages=st.lists(st.integers(0, 9), max_size=30))
def test_expand_gives_the_same_pages_in_the_same_order(pages: list[int]) -> None:
    runs = runs_of(pages)
    assert expand(runs) == pages
    assert count(runs) == len(pages)
    # No two neighbours could have been one run.
    assert all(sum(one) != other[0] for one, other in pairwise(runs))


many = st.lists(st.lists(st.tuples(st.integers(0, 30), st.integers(0, 6)), max_size=5), max_size=4)


@bounded(100)
@given(lists=many)
def test_union_holds_each_page_once(lists: list[list[Run]]) -> None:
    pages = sorted({page for runs in lists for page in expand(runs)})
    assert union(*lists) == runs_of(pages)
