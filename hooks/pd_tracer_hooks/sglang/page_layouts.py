"""The page layout of a buffer, read from the tensor and the class that made it.

A tensor's shape says how long a page is; how rows lie inside one is known by class only. What is not
known for certain is opaque: digested whole, nothing guessed.
"""

from __future__ import annotations

import math
from typing import Any

from pd_tracer_hooks.layout import PageLayout, Segment

#: Bytes of one token's KV and of its scales in a DeepSeek-V4 page.
V4_ROW, V4_SCALE, V4_ALIGN = 576, 8, 576
#: Key bytes and scale bytes of one token in an index-K page, by the bytes they come to together.
INDEX_ROWS = {132: (128, 4), 68: (64, 4)}


def page_bytes_of(tensor: Any) -> int:
    """Bytes of the tensor's first dimension's items."""
    return math.prod(int(size) for size in tensor.shape[1:]) * int(tensor.element_size())


def dtype_of(tensor: Any) -> str:
    """The tensor's dtype as text: ``bfloat16``."""
    return str(tensor.dtype).rsplit(".", maxsplit=1)[-1]


def token_rows(tensor: Any, page_size: int, kind: str = "rows") -> PageLayout:
    """A buffer with one row a token slot: (slots, …)."""
    return PageLayout.plain(page_size, page_bytes_of(tensor), dtype_of(tensor), kind)


def head_major(tensor: Any, page_size: int) -> PageLayout:
    """A buffer with heads outside of token slots: (pages, heads, slots, dim). One segment a head."""
    _, heads, slots, dim = (int(size) for size in tensor.shape)
    if slots != page_size:
        return PageLayout.opaque(page_bytes_of(tensor), dtype_of(tensor))
    row = dim * int(tensor.element_size())
    segments = tuple(Segment(head * slots * row, row) for head in range(heads))
    return PageLayout(page_bytes_of(tensor), slots, segments, dtype_of(tensor), "hnd")


def index_keys(tensor: Any, rows: int) -> PageLayout:
    """A buffer of index keys with one item a page of ``rows`` slots: (pages, bytes or values)."""
    size, dtype = page_bytes_of(tensor), dtype_of(tensor)
    if rows <= 0 or size % rows:
        return PageLayout.opaque(size, dtype)
    if int(tensor.element_size()) > 1:
        # Keys alone, in a floating type: rows one after another.
        return PageLayout.plain(rows, size // rows, dtype, "index_k")
    parts = INDEX_ROWS.get(size // rows)
    if parts is None:
        return PageLayout.opaque(size, dtype)
    key, scale = parts
    return PageLayout(size, rows, (Segment(0, key), Segment(rows * key, scale)), dtype, "index_k_with_scale")


def v4_rows(tensor: Any, rows: int, named: str = "v4") -> PageLayout:
    """A DeepSeek-V4 page: all rows, then all scales, then padding that belongs to nobody."""
    size, dtype = page_bytes_of(tensor), dtype_of(tensor)
    filled = rows * (V4_ROW + V4_SCALE)
    if named == "v4" and rows > 0 and size == -(-filled // V4_ALIGN) * V4_ALIGN:
        return PageLayout(size, rows, (Segment(0, V4_ROW), Segment(rows * V4_ROW, V4_SCALE)), dtype, "v4")
    if named == "uniform_fp8" and rows > 0 and size % rows == 0:
        return PageLayout.plain(rows, size // rows, dtype, "v4_uniform")
    return PageLayout.opaque(size, dtype)
