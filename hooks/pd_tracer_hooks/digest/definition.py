"""SM64, version 1: the digest's definition as a scalar reference.

This module *is* the definition: every faster path is checked against it bit for bit. It uses plain
integers and is slow on purpose (about 2 MB/s); see :mod:`pd_tracer_hooks.digest.cpu` for the path that
workers use. All arithmetic is modulo 2**64.

A digest detects damage, not malice: any change inside one aligned 8-byte word is always seen, but a
page that collides with another on purpose can be constructed. Do not use it as a security check.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

DIGEST_VERSION = "sm64.1"

MASK = 0xFFFFFFFFFFFFFFFF
G = 0x9E3779B97F4A7C15
KJ = 0xD1342543DE82EF95
KL = 0xA0761D6478BD642F

#: A transfer's body is divided into at most this many buckets of consecutive pages.
MAX_BUCKETS = 64


def fin64(x: int) -> int:
    """Mix one 64-bit word (the SplitMix64 finaliser). Invertible, so it loses nothing by itself."""
    x ^= x >> 30
    x = (x * 0xBF58476D1CE4E5B9) & MASK
    x ^= x >> 27
    x = (x * 0x94D049BB133111EB) & MASK
    return x ^ (x >> 31)


def words(data: bytes) -> Iterable[int]:
    """Yield ``data`` as little-endian 64-bit words, zero-padded to a multiple of 8 bytes."""
    padded = data + bytes(-len(data) % 8)
    for start in range(0, len(padded), 8):
        yield int.from_bytes(padded[start : start + 8], "little")


def page_digest(*parts: bytes) -> int:
    """Digest one page, given the valid bytes of its segments in order.

    Each part is padded to whole words by itself; the length bound into the digest is the true number
    of bytes. ``page_digest()`` and ``page_digest(b"")`` are the digest of nothing.
    """
    total = 0
    index = 0
    for part in parts:
        for word in words(part):
            index += 1
            total += fin64((word + index * G) & MASK)
    length = sum(map(len, parts))
    return fin64((total + (length + 1) * G) & MASK)


def order_free_digest(*parts: bytes) -> int:
    """Digest one page without regard to the order of its words (the second sum, M).

    Two pages with equal M and different :func:`page_digest` hold the same words in another order.
    """
    total = sum(fin64(word) for part in parts for word in words(part))
    length = sum(map(len, parts))
    return fin64((total + (length + 1) * G) & MASK)


def row_term(digest: int, page: int) -> int:
    """What page ordinal ``page`` adds to its layer's row sum."""
    return fin64((digest + (page + 1) * KJ) & MASK)


def cell_term(digest: int, page: int, layer: int) -> int:
    """What the cell (global layer id, page ordinal) adds to a cell sum."""
    return fin64((digest + (page + 1) * KJ + (layer + 1) * KL) & MASK)


def row_sum(cells: Iterable[tuple[int, int]]) -> int:
    """Sum one layer's cells, given as (page ordinal, page digest). Raw: sums of disjoint parts add."""
    return sum(row_term(digest, page) for page, digest in cells) & MASK


def cell_sum(cells: Iterable[tuple[int, int, int]]) -> int:
    """Sum any set of cells, given as (layer, page ordinal, page digest). Raw: disjoint parts add."""
    return sum(cell_term(digest, page, layer) for layer, page, digest in cells) & MASK


def add(*sums: int) -> int:
    """Add raw sums of disjoint parts."""
    return sum(sums) & MASK


def final(raw: int, cells: int) -> int:
    """Finalise a raw sum over ``cells`` cells: the value that is compared and shown."""
    return fin64((raw + (cells + 1) * G) & MASK)


def head_pages(pages: int, k: int) -> range:
    """Ordinals of the head region of a transfer of ``pages`` pages."""
    return range(min(k, pages))


def tail_pages(pages: int, k: int) -> range:
    """Ordinals of the tail region. Overlaps the head when the transfer is shorter than 2 k."""
    return range(max(0, pages - k), pages)


def bucket_edges(pages: int) -> Sequence[int]:
    """Edges of the body's buckets: bucket b holds ordinals [edges[b], edges[b + 1]).

    ``min(MAX_BUCKETS, pages)`` buckets, so one page a bucket up to 64 pages; ``[0]`` when there are none.
    """
    count = min(MAX_BUCKETS, pages)
    return [b * pages // count for b in range(count + 1)] if count else [0]


def hex64(value: int) -> str:
    """A 64-bit value as people see it: 16 lower-case hex digits."""
    return f"{value:016x}"
