"""Words that name their place: room, buffer and page, and their index within the page.

A wire that flips a bit can read from a frame alone what it hits.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

MAGIC = 0xA75C
_FIND = MAGIC.to_bytes(2, "big")


def words(room: int, buffer: int, page: int, count: int) -> np.ndarray:
    """``count`` words of one page, as big-endian 64-bit integers."""
    index = np.arange(count, dtype=np.uint64)
    base = np.uint64(MAGIC << 48 | (room & 0xFFFF) << 32 | (buffer & 0xFF) << 24 | (page & 0xFF) << 16)
    return (base | index).astype(">u8")


@dataclass(frozen=True)
class Place:
    """Where a word belongs."""

    room: int
    buffer: int
    page: int


def find(frame: bytes, start: int) -> tuple[int, Place] | None:
    """(offset in the frame, its place) of a word after ``start`` that is followed by its successor."""
    at = frame.find(_FIND, start)
    while at >= 0 and at + 16 <= len(frame):
        first, second = frame[at : at + 8], frame[at + 8 : at + 16]
        if first[:6] == second[:6] and int.from_bytes(second, "big") == int.from_bytes(first, "big") + 1:
            return at, Place(int.from_bytes(first[2:4], "big"), first[4], first[5])
        at = frame.find(_FIND, at + 1)
    return None
