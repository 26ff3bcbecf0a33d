"""Texts from an engine as the wire takes them: bounded, and without what no database stores.

Request ids and rooms can come from users, so anything may stand in them. Both sides change a text alike.
"""

from __future__ import annotations

from pd_tracer_hooks.digest.definition import hex64
from pd_tracer_hooks.keys import hash64

#: Bytes in UTF-8 that the wire gives to a room, to a short text and to a reason.
ROOM_BYTES, TEXT_BYTES, REASON_BYTES = 512, 256, 4096

_HASH_DIGITS = 16


def fit(text: str, limit: int = TEXT_BYTES) -> str:
    """``text`` cut to ``limit`` bytes in UTF-8. NUL and halves of surrogate pairs become ``?``."""
    if text.isascii() and "\0" not in text:
        return text[:limit]
    raw = text.replace("\0", "?").encode("utf-8", "replace")
    return raw[:limit].decode("utf-8", "ignore")


def fit_room(room: str) -> str:
    """A room's name. One that is too long ends in its own hash, so that no two rooms become one."""
    if len(room) <= ROOM_BYTES and room.isascii() and "\0" not in room:
        return room
    whole = fit(room, 4 * len(room))
    if len(whole.encode()) <= ROOM_BYTES:
        return whole
    return fit(whole, ROOM_BYTES - 1 - _HASH_DIGITS) + "~" + hex64(hash64("long-room.1", whole))
