"""Page digests of many pages at once, with numpy, for any layout.

Pages are gathered span by span into a block that stays in the core's cache, and mixed there in place.
The gathering copies bytes, so neither the offset nor the length of a span needs any alignment.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

from pd_tracer_hooks.digest.definition import MASK, G
from pd_tracer_hooks.digest.mixing import mix

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from pd_tracer_hooks.digest.mixing import Words

    Bytes = NDArray[np.uint8]

#: Words in a block: two blocks and the position terms fit a core's L2 cache, and a pass over one block
#: takes long enough to make numpy's cost per call small.
BLOCK_WORDS = 16384

#: (offset, length) in bytes.
Span = tuple[int, int]


class _Piece(NamedTuple):
    """A stretch of a page of at most a block: bytes from ``start`` on, and where its words count from."""

    start: int
    length: int
    #: Position of the first word among the page's words, or None where positions do not count.
    first_word: int | None


class _Scratch(threading.local):
    """Two blocks for each thread, kept, so that the passes over them allocate nothing."""

    def __init__(self) -> None:
        import numpy as np  # noqa: PLC0415

        self.words = np.empty(BLOCK_WORDS, np.uint64)
        self.spare = np.empty(BLOCK_WORDS, np.uint64)


@lru_cache(maxsize=1)
def _scratch() -> _Scratch:
    return _Scratch()


def digest_pages(
    memory: memoryview,
    page_bytes: int,
    pages: Sequence[int],
    spans: Sequence[Span],
    *,
    ordered: bool = True,
) -> Words:
    """Digest ``pages`` of ``memory``, of each the bytes in ``spans``, in order; or, not ``ordered``, their M.

    Page ``i`` starts at byte ``i * page_bytes``; every page and span must lie inside.
    Returns one word a page. Needs numpy.
    """
    import numpy as np  # noqa: PLC0415

    whole = len(memory) // page_bytes * page_bytes
    source = np.frombuffer(memory, np.uint8, whole).reshape(-1, page_bytes)
    places = np.array(pages, np.intp)
    totals = np.zeros(len(pages), np.uint64)
    for piece in _pieces(spans, 0 if ordered else None):
        _add_piece(source, places, piece, totals)
    length = sum(length for _, length in spans)
    totals += np.uint64(((length + 1) * G) & MASK)
    mix(totals, np.empty_like(totals))
    return totals


def sum_words(data: bytes, first_word: int | None) -> int:
    """Sum the mixed words of ``data``, at positions from ``first_word`` on (None: whatever their position).

    Needs numpy.
    """
    import numpy as np  # noqa: PLC0415

    source = np.frombuffer(data, np.uint8).reshape(1, -1)
    page = np.zeros(1, np.intp)
    total = np.zeros(1, np.uint64)
    for piece in _pieces([(0, len(data))], first_word):
        _add_piece(source, page, piece, total)
    return int(total[0])


def _pieces(spans: Sequence[Span], first_word: int | None = 0) -> Iterator[_Piece]:
    """Cut spans into pieces of at most a block each."""
    for offset, length in spans:
        for at in range(0, length, BLOCK_WORDS * 8):
            size = min(BLOCK_WORDS * 8, length - at)
            yield _Piece(offset + at, size, first_word)
            if first_word is not None:
                first_word += -(-size // 8)


def _add_piece(source: Bytes, pages: NDArray[np.intp], piece: _Piece, totals: Words) -> None:
    """Add one piece's mixed words to every page's total, as many pages at once as a block holds."""
    import numpy as np  # noqa: PLC0415

    start, length, first_word = piece
    scratch = _scratch()
    width = -(-length // 8)
    rows = min(BLOCK_WORDS // width, len(pages))
    words = scratch.words[: rows * width].reshape(rows, width)
    spare = scratch.spare[: rows * width].reshape(rows, width)
    for begin in range(0, len(pages), rows):
        block = pages[begin : begin + rows]
        words, spare = words[: len(block)], spare[: len(block)]  # the last block may be smaller
        if length % 8:
            words[:, -1] = 0
        words.view(np.uint8)[:, :length] = source[block, start : start + length]
        if first_word is not None:
            np.add(words, _position_terms(first_word, width), out=words)
        mix(words, spare)
        totals[begin : begin + rows] += words.sum(axis=1, dtype=np.uint64)


@lru_cache(maxsize=32)
def _position_terms(first: int, count: int) -> Words:
    """``(i + 1) * G`` for word positions ``i`` from ``first`` on. At most a block each, so 4 MiB in all."""
    import numpy as np  # noqa: PLC0415

    terms = np.arange(first + 1, first + 1 + count, dtype=np.uint64)
    terms *= np.uint64(G)
    terms.flags.writeable = False
    return terms
