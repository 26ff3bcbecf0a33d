"""Many texts as one binary parameter for PostgreSQL.

psycopg turns a list into an array item by item, each by a dumper of its own. For the thousands of keys that
a flush locks that took longer than the statement.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any

from psycopg.adapt import Dumper
from psycopg.pq import Format

_TEXT_OID, _TEXT_ARRAY_OID = 25, 1009
#: Dimensions, whether there are nulls, type of the items, number of items, index of the first.
_HEAD = struct.Struct("!5i")
_LENGTH = struct.Struct("!i")


class TextArray:
    """Texts that are sent as ``text[]``."""

    __slots__ = ("texts",)

    def __init__(self, texts: Sequence[str]) -> None:
        self.texts = texts


class TextArrayDumper(Dumper):
    """Encodes a :class:`TextArray` as PostgreSQL's binary format wants it."""

    format = Format.BINARY
    oid = _TEXT_ARRAY_OID

    def dump(self, obj: TextArray) -> bytes:
        """Head, then each text after its length. Without texts there is no dimension."""
        texts = obj.texts
        if not texts:
            return _HEAD.pack(0, 0, _TEXT_OID, 0, 0)[:12]
        pack = _LENGTH.pack
        items = [_HEAD.pack(1, 0, _TEXT_OID, len(texts), 1)]
        for text in texts:
            value = text.encode()
            items.append(pack(len(value)))
            items.append(value)
        return b"".join(items)


def teach(cursor: Any) -> None:
    """Let ``cursor`` send text arrays."""
    cursor.adapters.register_dumper(TextArray, TextArrayDumper)
