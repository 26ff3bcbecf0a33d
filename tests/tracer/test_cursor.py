"""Cursors: what is handed out comes back, and nothing else does."""

from __future__ import annotations

import base64
import math
from contextlib import suppress

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tracer.store.cursor import Cursor, decode_cursor, encode_cursor

#: What a stored name can hold.
NAMES = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=200)


@given(st.floats(allow_nan=False, allow_infinity=False), NAMES, NAMES)
def test_comes_back_as_it_was(last_seen: float, deployment: str, room: str) -> None:
    cursor = Cursor(last_seen, deployment, room)
    text = encode_cursor(cursor)
    assert decode_cursor(text) == cursor
    assert set(text) <= set("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_")


def packed(*values: object) -> str:
    return base64.urlsafe_b64encode(msgspec.msgpack.encode(values)).rstrip(b"=").decode()


@pytest.mark.parametrize(
    "text",
    [
        "",
        "?",
        "abc",
        "äöü",
        "A" * 3000,
        packed(1.0, "a", "b", 2),
        packed(1.0, "a"),
        packed(1.0, "a", "b", 1, 1),
        packed("now", "a", "b"),
        packed(math.nan, "a", "b"),
        packed(math.inf, "a", "b"),
        packed(1.0, "a\0", "b"),
        packed(1.0, "a", "\0"),
        encode_cursor(Cursor(1.0, "a", "b"))[:-2],
        encode_cursor(Cursor(1.0, "a", "b")) + "!",
    ],
)
def test_anything_else_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="cursor"):
        decode_cursor(text)


@given(st.text(max_size=60))
def test_any_text_is_refused_or_read(text: str) -> None:
    with suppress(ValueError):
        decode_cursor(text)
