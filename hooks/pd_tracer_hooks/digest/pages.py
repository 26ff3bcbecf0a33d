"""Digests of single pages and other byte strings, by the quicker of the two CPU paths.

The results are those of :mod:`pd_tracer_hooks.digest.definition`, whichever path computes them.
"""

from __future__ import annotations

from functools import lru_cache

from pd_tracer_hooks.digest import definition
from pd_tracer_hooks.digest.definition import MASK, G, fin64
from pd_tracer_hooks.digest.mixing import load_numpy

#: From this many bytes on, numpy is worth its cost per call (and, the first time, its import).
NUMPY_FROM_BYTES = 1024


def page_digest(*parts: bytes) -> int:
    """Digest one page, given the valid bytes of its segments in order."""
    return _digest(parts, ordered=True)


def order_free_digest(*parts: bytes) -> int:
    """Digest one page without regard to the order of its words."""
    return _digest(parts, ordered=False)


def _digest(parts: tuple[bytes, ...], *, ordered: bool) -> int:
    if sum(map(len, parts)) < NUMPY_FROM_BYTES or load_numpy() is None:
        return (definition.page_digest if ordered else definition.order_free_digest)(*parts)
    from pd_tracer_hooks.digest.blocks import sum_words  # noqa: PLC0415 - needs numpy

    total = index = 0
    for part in parts:
        total += sum_words(part, first_word=index if ordered else None)
        index += -(-len(part) // 8)
    length = sum(map(len, parts))
    return fin64((total + (length + 1) * G) & MASK)


@lru_cache(maxsize=256)
def zero_page_digest(*lengths: int) -> int:
    """The digest of a page of zeros whose segments have ``lengths`` valid bytes (one length: no segments).

    Segments matter because each is padded to whole words by itself.
    """
    return page_digest(*(bytes(length) for length in lengths))
