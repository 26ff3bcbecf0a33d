"""What the GPU's kernel is told, checked where there is no GPU."""

from __future__ import annotations

import pytest

from pd_tracer_hooks.digest.definition import page_digest
from pd_tracer_hooks.digest.gpu.plan import (
    CELL_SUMS,
    COPIES,
    NO_TIME,
    TIME_SLOTS,
    Block,
    Geometry,
    alignment,
    initial_result,
    spans_of,
    tuning_for,
    tunings_for,
)
from pd_tracer_hooks.layout import DSA_INDEX_K, PageLayout, Segment

APART = PageLayout(1000, 10, (Segment(4, 20), Segment(404, 36)))


@pytest.mark.parametrize(
    ("layout", "rows", "spans"),
    [
        (DSA_INDEX_K, None, ((0, 8448, 0),)),
        (DSA_INDEX_K, 64, ((0, 8448, 0),)),
        (DSA_INDEX_K, 7, ((0, 896, 0), (8192, 28, 112))),
        (PageLayout.plain(3, 7), 2, ((0, 14, 0),)),
        # The first segment ends within a word, so the second starts a new one though it follows at once.
        (PageLayout(36, 3, (Segment(0, 4), Segment(12, 8))), None, ((0, 12, 0), (12, 24, 2))),
        (APART, None, ((4, 200, 0), (404, 360, 25))),
        (APART, 0, ((4, 0, 0), (404, 0, 0))),
        (PageLayout(64, 2, tuple(Segment(16 * at, 8) for at in range(4))), None, ((0, 64, 0),)),
        (
            PageLayout(64, 2, tuple(Segment(16 * at, 8) for at in range(3))),
            1,
            ((0, 8, 0), (16, 8, 1), (32, 8, 2)),
        ),
    ],
)
def test_spans(layout, rows, spans):
    assert spans_of(layout, rows) == spans


@pytest.mark.parametrize("rows", [1, 3, 10, None])
@pytest.mark.parametrize("layout", [APART, DSA_INDEX_K, PageLayout(36, 3, (Segment(0, 4), Segment(12, 8)))])
def test_a_page_read_by_its_spans_has_the_digest_of_its_segments(layout, rows):
    rows = rows if rows is None else min(rows, layout.rows)
    page = bytes((7 * at + 3) & 255 for at in range(layout.page_bytes))
    spans = [page[start : start + size] for start, size, _ in spans_of(layout, rows)]
    assert page_digest(*spans) == page_digest(*layout.valid_parts(page, rows))
    words = 0
    for (_, size, first), _ in zip(spans_of(layout, rows), spans, strict=True):
        assert first == words
        words += -(-size // 8)


@pytest.mark.parametrize(
    ("layout", "addresses", "expected"),
    [
        (DSA_INDEX_K, [0, 1 << 30], 16),
        (DSA_INDEX_K, [0, 8], 8),
        (DSA_INDEX_K, [4], 4),
        (DSA_INDEX_K, [1], 1),
        (APART, [0], 4),
        (PageLayout.plain(16, 36), [0], 16),
        (PageLayout.plain(3, 7), [0], 1),
        (PageLayout(100, 5, (Segment(2, 4), Segment(22, 10))), [0], 2),
    ],
)
def test_alignment(layout, addresses, expected):
    assert alignment(layout, addresses) == expected


def test_headers():
    geometry = Geometry.of(DSA_INDEX_K, [0])
    assert (geometry.full, geometry.segments) == ((0, 8448), 2)
    assert geometry.header(5, 7) == [5, 1, 0, 896, 0, 8192, 28, 112, 0, 8448, 0, 0, 0, 0]
    assert geometry.header(5, 64)[:2] == geometry.header(5, None)[:2] == [5, 0]
    assert len(geometry.header(5, None)) == geometry.header_words
    assert Geometry.of(APART, [0]).full is None


@pytest.mark.parametrize("rows", [False, True])
def test_blocks_have_their_parts_one_after_the_other(rows):
    block = Block(14, layers=3, pages=5, rows=rows)
    copies = COPIES if rows else 0
    parts = [14, 2 * 3, 5, 5, 2 * TIME_SLOTS, 1, COPIES * CELL_SUMS, copies * 3 * 3, 3 * 5]
    starts = [
        block.addresses,
        block.page_ids,
        block.ordinals,
        block.result,
        block.outside,
        block.sums,
        block.row_sums,
        block.digests,
        block.words,
    ]
    assert starts == [sum(parts[: at + 1]) for at in range(len(parts))]
    initial = initial_result(3, copies)
    assert len(initial) == block.digests - block.result
    assert initial[: 2 * TIME_SLOTS] == [NO_TIME] * (2 * TIME_SLOTS)
    assert not any(initial[2 * TIME_SLOTS :])


@pytest.mark.parametrize("page_bytes", [1, 8448, 16384, 41984, 73728, 1 << 20])
def test_the_tuning_for_any_call_is_one_that_is_compiled_at_attach(page_bytes):
    for cells in (1, 61, 976, 1 << 20):
        assert tuning_for(page_bytes, cells) in tunings_for(page_bytes)
