"""Which pages of a component a transfer covers, and how many rows of its last page are valid.

Pure arithmetic over the page lists of the transfer. Transfers start on a page edge, so the number of
tokens in the last page follows from the sequence's length alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Extent:
    """A part of a component: physical ``pages`` whose ordinals begin at ``first``.

    ``last_rows`` are the valid rows of the last page (None: all of them), ``total`` the pages of the
    whole transfer without empty ones, ``start`` the logical page at which the transfer begins.
    """

    pages: tuple[int, ...]
    first: int
    total: int | None
    last: bool
    last_rows: int | None
    start: int


def last_page_tokens(seq_len: int, page_size: int) -> int:
    """Tokens in the last page of a sequence: 1 to ``page_size``."""
    return (seq_len - 1) % page_size + 1 if seq_len > 0 else page_size


def part(
    pages: Sequence[int],
    *,
    first: int,
    total: int | None,
    last: bool,
    seq_len: int | None,
    page_size: int,
    rows: int,
    tokens_per_row: int | None,
    start: int = 0,
) -> Extent:
    """The extent of one part, as the transfer hands it over.

    ``rows`` are a full page's. A last page whose tokens fill no whole row (in a compressed component) is
    left out on both sides, and not counted. Rows that are no tokens (``tokens_per_row`` None) are whole.
    """
    taken = tuple(int(page) for page in pages)
    if tokens_per_row is None or seq_len is None or seq_len <= 0:
        return Extent(taken, first, total, last, None, start)
    valid = min(last_page_tokens(seq_len, page_size) // tokens_per_row, rows)
    if valid:
        rest: int | None = valid if last and taken and valid < rows else None
        return Extent(taken, first, total, last, rest, start)
    total = None if total is None else max(total - 1, 0)
    return Extent(taken[:-1] if last else taken, first, total, last, None, start)
