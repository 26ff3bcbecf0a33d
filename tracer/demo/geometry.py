"""The shapes that move: layers, pages and chunks, and how a room's tokens fill them. Pure."""

from __future__ import annotations

from msgspec import Struct

from pd_tracer_hooks.layout import DSA_INDEX_K, PageLayout

KV, INDEX_K = "kv", "index_k"

#: MLA kv: 64 rows of 576 bfloat16, 73,728 bytes a page.
MLA_KV = PageLayout.plain(64, 576 * 2, dtype="bfloat16")

#: What a rank with half of the heads holds.
HALF_KV = PageLayout.plain(64, 576, dtype="bfloat16")

LAYOUTS = {KV: MLA_KV, INDEX_K: DSA_INDEX_K}


class Geometry(Struct, frozen=True, kw_only=True):
    """A small model with MLA kv in every layer and a DSA index-K buffer in most.

    ``layers``: the model's number of layers. ``pool_pages``: pages of each worker's pool, one page table
    for both components. ``chunk_pages``: pages of kv that one prefill chunk fills and sends.
    """

    layers: int = 6
    pool_pages: int = 320
    chunk_pages: int = 16

    @property
    def rows(self) -> int:
        """Tokens in a page."""
        return MLA_KV.rows

    def layer_ids(self, component: str) -> tuple[int, ...]:
        """Layers that own a buffer of ``component``; every third has no index-K and takes another's top-k."""
        if component == KV:
            return tuple(range(self.layers))
        return tuple(layer for layer in range(self.layers) if layer % 3 != 1)

    @property
    def page_bytes(self) -> int:
        """Bytes of one page over all components and layers."""
        return sum(len(self.layer_ids(name)) * layout.page_bytes for name, layout in LAYOUTS.items())


class Shape(Struct, frozen=True, kw_only=True):
    """How one room lies in pages.

    ``chunks`` are (first ordinal, pages) of kv in the order of sending; index-K goes once, with the last.
    """

    tokens: int
    pages: int
    last_rows: int
    chunks: tuple[tuple[int, int], ...]


def shape_of(tokens: int, geometry: Geometry) -> Shape:
    """Lay ``tokens`` (1 or more) out in pages and chunks."""
    if tokens < 1:
        raise ValueError(f"tokens={tokens}: a room has at least 1")
    pages, last_rows = MLA_KV.split_rows(tokens)
    step = geometry.chunk_pages
    chunks = tuple((first, min(step, pages - first)) for first in range(0, pages, step))
    return Shape(tokens=tokens, pages=pages, last_rows=last_rows, chunks=chunks)
