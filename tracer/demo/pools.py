"""A worker's memory: torch buffers in the shapes that engines give MLA kv and DSA index-K."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from pd_tracer_hooks.digest.backend import Pool
from tracer.demo.geometry import HALF_KV, INDEX_K, KV, LAYOUTS, MLA_KV, Geometry
from tracer.demo.tags import Cell, first_word

if TYPE_CHECKING:
    import torch

Pools = Mapping[str, Pool]


def make_pools(geometry: Geometry, seed: int, head_slice: str = "") -> Pools:
    """Allocate both components' buffers, full of some earlier life's bytes: no real pool is ever empty.

    ``head_slice``: this rank holds half of the heads, which ones; its rows of kv are half as wide.
    """
    import torch  # noqa: PLC0415 - an optional dependency

    generator = torch.Generator().manual_seed(seed)
    pages = geometry.pool_pages
    layout = HALF_KV if head_slice else MLA_KV
    # As the engines shape them: kv by token slot, index-K by page.
    kv = {
        layer: torch.empty(pages * MLA_KV.rows, 1, layout.segments[0].row_bytes // 2, dtype=torch.bfloat16)
        for layer in geometry.layer_ids(KV)
    }
    index_k = {
        layer: torch.empty(pages, LAYOUTS[INDEX_K].page_bytes, dtype=torch.uint8)
        for layer in geometry.layer_ids(INDEX_K)
    }
    pools = {KV: Pool(KV, layout, kv, head_slice), INDEX_K: Pool(INDEX_K, LAYOUTS[INDEX_K], index_k)}
    for pool in pools.values():
        for buffer in pool.buffers.values():
            buffer.view(torch.int64).random_(generator=generator)
    return pools


def tensors(pools: Pools) -> list[torch.Tensor]:
    """All buffers, to be registered with the transfer engine."""
    return [buffer for pool in pools.values() for buffer in pool.buffers.values()]


def addresses(pools: Pools) -> dict[str, dict[int, int]]:
    """Component -> layer -> address of its buffer in this process."""
    return {
        name: {layer: buffer.data_ptr() for layer, buffer in pool.buffers.items()}
        for name, pool in pools.items()
    }


def page_view(pool: Pool, layer: int) -> torch.Tensor:
    """A layer's buffer as (pages, bytes of a page) uint8, sharing its memory."""
    import torch  # noqa: PLC0415 - an optional dependency

    buffer: torch.Tensor = pool.buffers[layer]
    return buffer.view(torch.uint8).view(-1, pool.layout.page_bytes)


def compute_rows(pool: Pool, pages: Sequence[int], last_rows: int, generator: torch.Generator) -> None:
    """Stand in for a forward: write every layer's rows of ``pages``, of the last page only ``last_rows``.

    Rows that the sequence does not use keep what an earlier one left there.
    """
    import torch  # noqa: PLC0415 - an optional dependency

    for layer in pool.buffers:
        view = page_view(pool, layer)
        for number, page in enumerate(pages, start=1):
            if number < len(pages) or last_rows == pool.layout.rows:
                view[page].view(torch.int64).random_(generator=generator)
            else:
                for offset, length in pool.layout.valid_spans(last_rows):
                    view[page, offset : offset + length].random_(0, 256, generator=generator)


def tag_rows(pool: Pool, index: int, first: int, pages: Sequence[int], last_rows: int) -> None:
    """As :func:`compute_rows`, with words that say where they belong.

    That is to room ``index``, from its page ``first`` on. Bytes that belong to no row are zeros.
    """
    import torch  # noqa: PLC0415 - an optional dependency

    numbers = torch.arange(pool.layout.page_bytes // 8)
    for layer in pool.buffers:
        view = page_view(pool, layer)
        for offset, page in enumerate(pages):
            words = numbers + first_word(Cell(index, pool.component, layer, first + offset))
            view[page] = 0
            rows = last_rows if offset == len(pages) - 1 else pool.layout.rows
            for start, length in pool.layout.valid_spans(rows):
                view[page, start : start + length] = words.view(torch.uint8)[start : start + length]


def write_next_row(pools: Pools, page: int, row: int, generator: torch.Generator) -> None:
    """Stand in for a decode step: write the next token's row behind those that were transferred."""
    for pool in pools.values():
        for layer in pool.buffers:
            for segment in pool.layout.segments:
                start = segment.offset + row * segment.row_bytes
                cells = page_view(pool, layer)[page, start : start + segment.row_bytes]
                cells.random_(0, 256, generator=generator)


def zero_pages(pools: Pools, pages: Sequence[int]) -> None:
    """As if nothing had ever been written there: memory fresh from the allocator is zeros."""
    for pool in pools.values():
        for layer in pool.buffers:
            page_view(pool, layer)[list(pages)] = 0
