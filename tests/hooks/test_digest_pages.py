"""Digests of single byte strings: the quick path says what the definition says, at every length."""

from __future__ import annotations

import random
from contextlib import nullcontext
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.digests import bounded, numpy_absent

from pd_tracer_hooks.digest import blocks, cpu, definition, pages
from pd_tracer_hooks.digest.backend import DigestRequest, Pool
from pd_tracer_hooks.layout import DSA_INDEX_K, PageLayout, Segment
from pd_tracer_hooks.u64s import U64s

BLOCK = blocks.BLOCK_WORDS * 8
LENGTHS = [0, 1, 8, 1016, 1023, 1024, 1025, 8448, BLOCK - 1, BLOCK, BLOCK + 1, 2 * BLOCK + 13]


@pytest.mark.parametrize("length", LENGTHS)
def test_equals_the_definition_at_the_edges_of_thresholds_and_blocks(length: int) -> None:
    data = random.Random(length).randbytes(length)
    assert pages.page_digest(data) == definition.page_digest(data)
    assert pages.order_free_digest(data) == definition.order_free_digest(data)


@bounded(60)
@given(lengths=st.lists(st.integers(0, 3000), max_size=4), seed=st.integers(0, 1000))
def test_equals_the_definition_for_several_parts(lengths: list[int], seed: int) -> None:
    source = random.Random(seed)
    parts = [source.randbytes(length) for length in lengths]
    assert pages.page_digest(*parts) == definition.page_digest(*parts)
    assert pages.order_free_digest(*parts) == definition.order_free_digest(*parts)


def test_works_without_numpy() -> None:
    data = random.Random(1).randbytes(5000)
    with numpy_absent():
        assert pages.page_digest(data, data[:3]) == definition.page_digest(data, data[:3])


def test_zero_page() -> None:
    assert definition.hex64(pages.zero_page_digest(8448)) == "876b7f5cd2aa32b3"
    lengths = [length for _, length in DSA_INDEX_K.valid_spans(3)]
    zeros = DSA_INDEX_K.valid_parts(bytes(8448), 3)
    assert pages.zero_page_digest(*lengths) == definition.page_digest(*zeros)
    # Segments are padded one by one, so where they end matters even among zeros.
    assert pages.zero_page_digest(3, 3) == definition.page_digest(bytes(3), bytes(3))
    assert pages.zero_page_digest(3, 3) != pages.zero_page_digest(6)


@pytest.mark.parametrize("absent", [False, True])
def test_order_free_sums_beside_the_digests(absent: bool) -> None:
    layout = PageLayout(48, 4, (Segment(0, 8), Segment(32, 4)))
    memory = bytes((7 * at) & 255 for at in range(48 * 6))
    pool = Pool("kv", layout, {0: memory, 3: memory[::-1]})
    request = DigestRequest(pool, (0, 3), [4, 1, 5], 3, order_free=True)
    with numpy_absent() if absent else nullcontext():
        read = cpu.CpuBackend().launch(request).result()
        plain = cpu.CpuBackend().launch(replace(request, order_free=False)).result()
    expected = [
        definition.order_free_digest(*layout.valid_parts(data[48 * page : 48 * page + 48], rows))
        for data in (memory, memory[::-1])
        for page, rows in ((4, None), (1, None), (5, 3))
    ]
    assert list(U64s(read.order_free).values()) == expected
    assert (plain.order_free, plain.data) == (b"", read.data)
