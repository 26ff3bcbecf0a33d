"""64-bit hashes of named things: transfer keys, signatures, sampling.

Both sides must compute the same value from the same facts, so each is the SM64 page digest of a
canonical byte string: fields in a fixed order, each as one tag byte, a 32-bit little-endian length
and the value. Integers are 8 bytes little-endian, text is UTF-8, integer lists are concatenated
integers. A negative integer is encoded as its two's complement. docs/wire.md has vectors.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence, Sized
from operator import index
from typing import SupportsIndex

from pd_tracer_hooks.digest.definition import MASK, hex64
from pd_tracer_hooks.digest.pages import page_digest

_TEXT, _INT, _INTS = b"t", b"i", b"l"

Field = str | SupportsIndex | Sequence[int]


def canonical(*fields: Field) -> bytes:
    """Encode ``fields`` so that different sequences of texts and unsigned integers give different bytes.

    Raises ``ValueError`` for an integer that fits in no 64 bits.
    """
    out = bytearray()
    for field in fields:
        if isinstance(field, str):
            tag, value = _TEXT, field.encode()
        elif isinstance(field, Sized):  # first: a numpy array has __index__ too
            tag, value = _INTS, _pack(field)
        else:
            tag, value = _INT, _pack((field,))
        out += tag + struct.pack("<I", len(value)) + value
    return bytes(out)


def _pack(numbers: Sequence[SupportsIndex]) -> bytes:
    try:
        return struct.pack(f"<{len(numbers)}Q", *numbers)
    except struct.error:
        plain = [index(number) for number in numbers]
    for number in plain:
        if not -(1 << 63) <= number <= MASK:
            raise ValueError(f"{number} does not fit in 64 bits")
    return struct.pack(f"<{len(plain)}Q", *(number & MASK for number in plain))


def hash64(*fields: Field) -> int:
    """Hash a sequence of fields to an unsigned 64-bit integer."""
    return page_digest(canonical(*fields))


def transfer_key(
    *, session: str, pages: Sequence[int], prefix_pages: int = 0, aux_index: int = 0, nonce: int = 0
) -> str:
    """Name one handing-over of one decode rank's destination pages, as 16 hex digits.

    ``session`` is the decode rank's name in the transfer engine (session or agent), ``pages`` its
    physical destination pages, ``prefix_pages`` the pages decode already held, ``aux_index`` its
    metadata slot. ``nonce`` is for handshakes that carry one; engines without it pass 0.
    """
    return hex64(hash64("transfer-key.1", session, pages, prefix_pages, aux_index, nonce))


def sampled(room: str, rate: float) -> bool:
    """Whether a room is traced at ``rate`` (0 to 1). Every rank of both sides decides alike."""
    if rate >= 1.0:
        return True
    return hash64("sample.1", room) < int(max(0.0, rate) * (MASK + 1))
