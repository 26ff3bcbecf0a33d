"""What the digest promises, tried on its definition."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import assume, given
from hypothesis import strategies as st
from support.digests import bounded, layouts, words

from pd_tracer_hooks.digest.definition import (
    MAX_BUCKETS,
    bucket_edges,
    cell_sum,
    final,
    head_pages,
    order_free_digest,
    page_digest,
    row_sum,
    tail_pages,
)
from pd_tracer_hooks.layout import PageLayout


@bounded(200)
@given(data=st.binary(min_size=1, max_size=200), where=st.integers(0), change=st.integers(1, (1 << 64) - 1))
def test_any_change_within_one_word_shows(data: bytes, where: int, change: int) -> None:
    start = where % len(data) // 8 * 8
    word = data[start : start + 8]
    change %= 1 << 8 * len(word)
    assume(change)
    changed = (int.from_bytes(word, "little") ^ change).to_bytes(len(word), "little")
    assert page_digest(data[:start] + changed + data[start + 8 :]) != page_digest(data)


@bounded(100)
@given(data=st.binary(max_size=100), zeros=st.integers(1, 40))
def test_length_is_bound_in(data: bytes, zeros: int) -> None:
    longer = data + bytes(zeros)
    assert page_digest(longer) != page_digest(data)
    assert order_free_digest(longer) != order_free_digest(data)


@bounded(100)
@given(values=st.lists(words, min_size=2, max_size=12), shuffle=st.randoms(use_true_random=False))
def test_order_of_words_shows_and_the_order_free_sum_forgives_it(values: list[int], shuffle) -> None:
    other = list(values)
    shuffle.shuffle(other)
    one, two = (b"".join(value.to_bytes(8, "little") for value in each) for each in (values, other))
    assert order_free_digest(one) == order_free_digest(two)
    assert (page_digest(one) == page_digest(two)) == (values == other)


@bounded(100)
@given(page=st.data(), layout=layouts())
def test_rows_moved_show(page: st.DataObject, layout: PageLayout) -> None:
    assume(layout.rows > 1)
    data = page.draw(st.binary(min_size=layout.page_bytes, max_size=layout.page_bytes))
    one, two = page.draw(st.permutations(range(layout.rows)))[:2]
    moved = bytearray(data)
    for segment in layout.segments:
        size = segment.row_bytes
        a, b = (segment.offset + row * size for row in (one, two))
        moved[a : a + size], moved[b : b + size] = data[b : b + size], data[a : a + size]
    before, after = layout.valid_parts(data), layout.valid_parts(bytes(moved))
    assert (page_digest(*before) == page_digest(*after)) == (before == after)


def test_padding_and_unused_rows_do_not_count() -> None:
    layout = PageLayout.plain(4, 8)
    garbage = bytes(range(16)) + b"\x55" * 16
    zeroed = bytes(range(16)) + bytes(16)
    assert page_digest(*layout.valid_parts(garbage, 2)) == page_digest(*layout.valid_parts(zeroed, 2))
    assert page_digest(*layout.valid_parts(garbage, 3)) != page_digest(*layout.valid_parts(zeroed, 3))


def test_each_segment_is_padded_by_itself() -> None:
    assert page_digest(b"abc", b"def") != page_digest(b"abcdef")
    assert page_digest(b"abc", b"def") == page_digest(b"abc", b"", b"def")
    assert page_digest(b"abcdefgh", b"ij") == page_digest(b"abcdefghij")


@bounded(100)
@given(
    digests=st.lists(words, min_size=2, max_size=6, unique=True),
    layers=st.lists(st.integers(0, 100), min_size=2, max_size=2, unique=True),
)
def test_swapped_pages_and_swapped_layers_show(digests: list[int], layers: list[int]) -> None:
    one, two = digests[:2]
    first, second = layers
    assert row_sum([(0, one), (1, two)]) != row_sum([(0, two), (1, one)])
    assert cell_sum([(first, 0, one), (first, 1, two)]) != cell_sum([(first, 0, two), (first, 1, one)])
    assert cell_sum([(first, 0, one), (second, 0, two)]) != cell_sum([(first, 0, two), (second, 0, one)])
    # The same page shifted by one, and a page and a layer exchanged.
    assert cell_sum([(first, 0, one)]) != cell_sum([(first, 1, one)])
    assert cell_sum([(first, second, one)]) != cell_sum([(second, first, one)])


@bounded(50)
@given(raw=words, cells=st.integers(0, 1 << 30), more=st.integers(1, 1000))
def test_the_number_of_cells_is_bound_in(raw: int, cells: int, more: int) -> None:
    assert final(raw, cells) != final(raw, cells + more)


@bounded(100)
@given(pages=st.integers(0, 5000))
def test_buckets_part_the_body(pages: int) -> None:
    edges = bucket_edges(pages)
    assert (edges[0], edges[-1], len(edges) - 1) == (0, pages, min(MAX_BUCKETS, pages))
    sizes = [high - low for low, high in pairwise(edges)]
    assert all(size >= 1 for size in sizes)
    assert not sizes or max(sizes) - min(sizes) <= 1


@bounded(50)
@given(pages=st.integers(0, 40), k=st.integers(0, 20))
def test_head_and_tail(pages: int, k: int) -> None:
    numbers = list(range(pages))
    assert list(head_pages(pages, k)) == numbers[:k]
    assert list(tail_pages(pages, k)) == numbers[max(0, pages - k) :]
