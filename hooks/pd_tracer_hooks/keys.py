"""64-bit hashes of named things: transfer keys, signatures, sampling.

Both sides must compute the same value from the same facts, so each is the SM64 page digest of a
canonical byte string: fields in a fixed order, each as one tag byte, a 32-bit little-endian length
and the value. Integers are 8 bytes little-endian, text is UTF-8, integer lists are concatenated
integers. docs/wire.md has vectors.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence

from pd_tracer_hooks.digest.definition import MASK, hex64, page_digest

_TEXT, _INT, _INTS = b"t", b"i", b"l"

Field = str | int | Sequence[int]


def canonical(*fields: Field) -> bytes:
    """Encode ``fields`` so that no two different sequences give the same bytes."""
    out = bytearray()
    for field in fields:
        if isinstance(field, str):
            tag, value = _TEXT, field.encode()
        elif isinstance(field, int):
            tag, value = _INT, struct.pack("<Q", field & MASK)
        else:
            tag, value = _INTS, struct.pack(f"<{len(field)}Q", *field)
        out += tag + struct.pack("<I", len(value)) + value
    return bytes(out)


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
    return hex64(hash64("transfer-key.1", session, list(pages), prefix_pages, aux_index, nonce))


def sampled(room: str, rate: float) -> bool:
    """Whether a room is traced at ``rate`` (0 to 1). Every rank of both sides decides alike."""
    if rate >= 1.0:
        return True
    return hash64("sample.1", room) < int(max(rate, 0.0) * (MASK + 1))
