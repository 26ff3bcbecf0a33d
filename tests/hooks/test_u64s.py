"""Arrays of 64-bit sums: one value, two encodings, and a reason for what is neither."""

from __future__ import annotations

import struct
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.digests import bounded, words

from pd_tracer_hooks.u64s import U64s
from pd_tracer_hooks.wire import JSON, MSGPACK, decoder, encode

TOP = (1 << 64) - 1


class Holder(msgspec.Struct):
    sums: U64s


def test_both_encodings() -> None:
    holder = Holder(U64s.of([1, TOP]))
    assert encode(holder, JSON) == b'{"sums":["0000000000000001","ffffffffffffffff"]}'
    assert encode(holder, MSGPACK) == b"\x81\xa4sums\xc4\x10\x01" + bytes(7) + b"\xff" * 8


@bounded(100)
@given(values=st.lists(words, max_size=70))
def test_what_is_written_is_read(values: list[int]) -> None:
    packed = U64s.of(values)
    assert list(packed.values()) == values
    assert packed.hex_list() == [f"{value:016x}" for value in values]
    for content_type in (JSON, MSGPACK):
        read = decoder(Holder, content_type).decode(encode(Holder(packed), content_type))
        assert type(read.sums) is U64s
        assert read.sums == packed


@pytest.mark.parametrize(
    ("value", "kind", "reason"),
    [
        (bytes(7), ValueError, "7 bytes is no whole number"),
        ("00" * 8, TypeError, "got str"),
        (None, TypeError, "got NoneType"),
        (["0" * 16, "0" * 15], ValueError, "item 1 is '000000000000000', expected"),
        # What bytes.fromhex and int would let through.
        (["00 00 00 00 00 00 0"], ValueError, "item 0"),
        (["  " + "0" * 14], ValueError, "item 0"),
        (["0" * 15, "0" * 17], ValueError, "item 0"),
        (["0x" + "0" * 14], ValueError, "item 0"),
        (["+" + "0" * 15], ValueError, "item 0"),
        (["\u0660" * 16], ValueError, "item 0"),
        (["0" * 16, 5], ValueError, "item 1 is 5"),
        (["0" * 16, None], ValueError, "item 1 is None"),
        ([["0" * 16]], ValueError, "item 0"),
    ],
)
def test_says_what_is_wrong(value: Any, kind: type[Exception], reason: str) -> None:
    with pytest.raises(kind, match=reason):
        U64s.from_wire(value)


def test_a_bad_array_names_its_field() -> None:
    for content_type in (JSON, MSGPACK):
        with pytest.raises(msgspec.ValidationError, match=r"whole number|hex digits.* - at `\$\.sums`"):
            decoder(Holder, content_type).decode(
                msgspec.json.encode({"sums": ["5"]}) if content_type == JSON else b"\x81\xa4sums\xc4\x01\x01"
            )


def test_capital_digits_are_read() -> None:
    assert U64s.from_wire(["00000000DEADBEEF"]).values() == (0xDEADBEEF,)


@pytest.mark.parametrize("value", [-1, TOP + 1])
def test_refuses_what_is_no_unsigned_64_bit_integer(value: int) -> None:
    with pytest.raises(struct.error):
        U64s.of([value])
