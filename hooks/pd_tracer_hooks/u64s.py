"""Arrays of unsigned 64-bit integers as they travel: bytes in msgpack, hex strings in JSON."""

from __future__ import annotations

import struct
from array import array
from collections.abc import Iterable
from typing import Any


class U64s(bytes):
    """A packed array of little-endian unsigned 64-bit integers.

    msgpack carries the bytes themselves. JSON carries a list of strings of 16 hex digits, since neither
    JavaScript nor SQLite has an unsigned 64-bit number.
    """

    __slots__ = ()

    @classmethod
    def of(cls, values: Iterable[int]) -> U64s:
        """Pack integers. Raises ``struct.error`` for one outside 0 to 2**64 - 1."""
        items = list(values)
        return cls(struct.pack(f"<{len(items)}Q", *items))

    @classmethod
    def from_wire(cls, value: Any) -> U64s:
        """Read either encoding. Raises ``ValueError`` or ``TypeError`` that says what is wrong."""
        if isinstance(value, bytes):
            if len(value) % 8:
                raise ValueError(f"{len(value)} bytes is no whole number of 64-bit integers")
            return cls(value)
        if not isinstance(value, list):
            raise TypeError(
                f"expected bytes (msgpack) or a list of hex strings (JSON), got {type(value).__name__}"
            )
        packed = _unhex(value)
        if packed is None:
            index, text = next((i, t) for i, t in enumerate(value) if not _is_hex64(t))
            raise ValueError(f"item {index} is {text!r:.40}, expected a string of 16 hex digits")
        return cls(packed)

    def values(self) -> tuple[int, ...]:
        """The integers."""
        return struct.unpack(f"<{len(self) // 8}Q", self)

    def hex_list(self) -> list[str]:
        """The integers as strings of 16 hex digits."""
        return [f"{value:016x}" for value in self.values()]


def _unhex(texts: list[Any]) -> bytes | None:
    """Pack hex strings, or None if one of them is not 16 hex digits. All at once: JSON's hot path."""
    try:
        packed = bytes.fromhex("".join(texts))
    except (TypeError, ValueError):
        return None
    # fromhex skips blanks, so the length tells strings that only looked right.
    if len(packed) != 8 * len(texts) or not set(map(len, texts)) <= {16}:
        return None
    numbers = array("Q", packed)
    numbers.byteswap()  # hex digits are written most significant first
    return numbers.tobytes()


def _is_hex64(text: Any) -> bool:
    return isinstance(text, str) and len(text) == 16 and all(char in _HEX for char in text)


_HEX = frozenset("0123456789abcdefABCDEF")
