"""Where a list was left: an opaque text that the next request hands back."""

from __future__ import annotations

import base64
import binascii
import math

import msgspec

_VERSION = 1
_MAX_TEXT = 2048


class Cursor(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """The last room that a page showed, by what the list is ordered by."""

    last_seen: float
    deployment: str
    room: str
    version: int = _VERSION


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(Cursor).decode


def encode_cursor(cursor: Cursor) -> str:
    """The cursor as text that needs no quoting in a URL."""
    return base64.urlsafe_b64encode(_encode(cursor)).rstrip(b"=").decode()


def decode_cursor(text: str) -> Cursor:
    """Read a cursor back. Raises ``ValueError`` for a text that :func:`encode_cursor` did not make."""
    if len(text) > _MAX_TEXT:
        raise ValueError(f"a cursor of {len(text)} characters")
    try:
        raw = base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
        cursor = _decode(raw)
    except (binascii.Error, msgspec.DecodeError, UnicodeError, ValueError) as error:
        raise ValueError("no cursor that this collector made") from error
    if cursor.version != _VERSION or not math.isfinite(cursor.last_seen):
        raise ValueError("no cursor that this collector made")
    if "\0" in cursor.deployment or "\0" in cursor.room:
        raise ValueError("no cursor that this collector made")
    return cursor
