"""Hashes of named things: vectors that other languages must meet, and an encoding without collisions."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.digests import bounded, numpy_absent, words

from pd_tracer_hooks.digest.definition import hex64, page_digest
from pd_tracer_hooks.keys import Field, canonical, hash64, sampled, transfer_key

CANONICAL: list[tuple[tuple[Field, ...], str]] = [
    ((), ""),
    (("",), "7400000000"),
    (("a", 1), "740100000061" + "6908000000" + "0100000000000000"),
    (("é",), "7402000000c3a9"),
    (([],), "6c00000000"),
    (([17, 18],), "6c10000000" + "1100000000000000" + "1200000000000000"),
    (((1 << 64) - 1,), "6908000000" + "ff" * 8),
    ((-1, [-2]), "6908000000" + "ff" * 8 + "6c08000000" + "fe" + "ff" * 7),
]


@pytest.mark.parametrize(("fields", "expected"), CANONICAL)
def test_canonical_bytes(fields: tuple[Field, ...], expected: str) -> None:
    assert canonical(*fields).hex() == expected


KEYS: list[tuple[dict[str, Any], str]] = [
    ({"session": "decode-0", "pages": [17, 18], "nonce": 1}, "73bfee68b4452cf7"),
    ({"session": "decode-0", "pages": []}, "c447c0a76d31141c"),
    (
        {"session": "10.0.0.7:17000", "pages": [5, 6, 7, 2], "prefix_pages": 3, "aux_index": 9},
        "c7f413e36a028b60",
    ),
    ({"session": "decode-1", "pages": range(4096)}, "3e7000e8306b49e1"),
]


@pytest.mark.parametrize(("facts", "expected"), KEYS)
def test_transfer_key(facts: dict[str, Any], expected: str) -> None:
    assert transfer_key(**facts) == expected
    with numpy_absent():
        assert transfer_key(**facts) == expected


def test_every_fact_counts_in_a_transfer_key() -> None:
    base: dict[str, Any] = {"session": "s", "pages": [1, 2], "prefix_pages": 3, "aux_index": 4, "nonce": 5}
    changes: list[dict[str, Any]] = [
        {},
        {"session": "t"},
        {"pages": [2, 1]},
        {"pages": [1]},
        {"prefix_pages": 4},
        {"aux_index": 3},
        {"nonce": 6},
    ]
    assert len({transfer_key(**(base | change)) for change in changes}) == len(changes)


def test_numpy_pages_give_the_same_key() -> None:
    pages = np.array([17, 18], np.int32)
    plain = transfer_key(session="s", pages=[17, 18], aux_index=2)
    assert transfer_key(session="s", pages=pages, aux_index=np.int64(2)) == plain


fields = st.lists(st.text(max_size=6) | words | st.lists(words, max_size=3).map(tuple), max_size=4).map(tuple)


@bounded(200)
@given(one=fields, two=fields)
def test_different_fields_have_different_bytes(one: tuple[Field, ...], two: tuple[Field, ...]) -> None:
    assert (canonical(*one) == canonical(*two)) == (one == two)


@bounded(200)
@given(sequence=fields)
def test_canonical_bytes_can_be_read_back(sequence: tuple[Field, ...]) -> None:
    """What can be read back without knowing what was written cannot be ambiguous."""
    data = canonical(*sequence)
    found: list[Field] = []
    while data:
        tag, size = data[:1], int.from_bytes(data[1:5], "little")
        value, data = data[5 : 5 + size], data[5 + size :]
        numbers = tuple(int.from_bytes(value[at : at + 8], "little") for at in range(0, size, 8))
        found.append({b"t": value.decode, b"i": lambda n=numbers: n[0], b"l": lambda n=numbers: n}[tag]())
    assert tuple(found) == sequence


@pytest.mark.parametrize("field", [1 << 64, -(1 << 63) - 1, [0, 1 << 64]])
def test_refuses_integers_beyond_64_bits(field: Field) -> None:
    with pytest.raises(ValueError, match="does not fit in 64 bits"):
        canonical(field)


def test_the_hash_is_the_digest_of_the_canonical_bytes() -> None:
    assert hash64("a", 1, [2, 3]) == page_digest(canonical("a", 1, [2, 3]))
    assert hex64(hash64()) == "e220a8397b1dcdaf"


def test_sampling_is_nested_and_near_its_rate() -> None:
    rooms = [str(number) for number in range(4000)]
    rates = [0.0, 0.01, 0.1, 0.5, 1.0]
    chosen = [{room for room in rooms if sampled(room, rate)} for rate in rates]
    assert (chosen[0], chosen[-1]) == (set(), set(rooms))
    # A room that is traced at some rate is traced at every higher one.
    assert all(fewer < more for fewer, more in pairwise(chosen))
    for rate, some in zip(rates, chosen, strict=True):
        deviation = (len(rooms) * rate * (1 - rate)) ** 0.5
        assert abs(len(some) - rate * len(rooms)) <= 4 * deviation


def test_sampling_vector() -> None:
    """0.897…: the share of all hashes below this room's."""
    assert hex64(hash64("sample.1", "4711")) == "e5a2d8f2aec33da5"
    assert not sampled("4711", 0.89701)
    assert sampled("4711", 0.89702)


@pytest.mark.parametrize(
    ("rate", "expected"), [(-1.0, False), (0.0, False), (1.0, True), (7.0, True), (float("nan"), False)]
)
def test_sampling_at_odd_rates(rate: float, expected: bool) -> None:
    assert sampled("4711", rate) is expected
