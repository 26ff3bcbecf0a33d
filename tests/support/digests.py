"""What the digest's tests share: layouts and cells to try, a world without numpy, the known answers."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from hypothesis import settings
from hypothesis import strategies as st

from pd_tracer_hooks.digest.backend import DigestRequest, PageDigests, Pool
from pd_tracer_hooks.digest.cpu import CpuBackend
from pd_tracer_hooks.digest.mixing import load_numpy
from pd_tracer_hooks.layout import PageLayout, Segment
from pd_tracer_hooks.u64s import U64s

#: Zeros, and a page that counts up: the size of a DSA index-K page.
ZEROS = bytes(8448)
COUNTING = bytes(i & 255 for i in range(8448))


def bounded(examples: int) -> settings:
    """A hypothesis profile that tries the same ``examples`` cases each time, whatever the machine's speed."""
    return settings(max_examples=examples, derandomize=True, database=None, deadline=None)


@contextmanager
def numpy_absent() -> Iterator[None]:
    """For the digest, numpy cannot be imported."""
    load_numpy.cache_clear()
    try:
        with pytest.MonkeyPatch.context() as patch:
            patch.setitem(sys.modules, "numpy", None)
            assert load_numpy() is None
            yield
    finally:
        load_numpy.cache_clear()


def digest(pool: Pool, layers: list[int], pages: list[int], last_rows: int | None = None) -> PageDigests:
    """What the CPU path says of these pages."""
    return CpuBackend().launch(DigestRequest(pool, layers, pages, last_rows)).result()


words = st.integers(0, (1 << 64) - 1)


@st.composite
def layouts(draw: st.DrawFn, max_row_bytes: int = 40) -> PageLayout:
    """Layouts with gaps before, between and after up to three segments, at any alignment."""
    rows = draw(st.integers(1, 6))
    segments, end = [], 0
    for _ in range(draw(st.integers(1, 3))):
        start = end + draw(st.integers(0, 9))
        row_bytes = draw(st.integers(1, max_row_bytes))
        segments.append(Segment(start, row_bytes))
        end = start + rows * row_bytes
    return PageLayout(end + draw(st.integers(0, 9)), rows, tuple(segments))


@st.composite
def cells(draw: st.DrawFn, max_layers: int = 4, max_pages: int = 12) -> PageDigests:
    """Page digests of some layers x pages."""
    layers = draw(st.lists(st.integers(0, 200), min_size=1, max_size=max_layers, unique=True))
    pages = draw(st.integers(1, max_pages))
    size = len(layers) * pages
    values = draw(st.lists(words, min_size=size, max_size=size))
    return PageDigests(tuple(layers), pages, bytes(U64s.of(values)), 0.0, 0.0)
