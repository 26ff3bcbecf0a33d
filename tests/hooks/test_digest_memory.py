"""Buffers as bytes: every kind, without a copy, and a reason for what cannot be read."""

from __future__ import annotations

import array
import mmap
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from pd_tracer_hooks.digest.memory import byte_view

torch = pytest.importorskip("torch")

DATA = bytes(range(48))

KINDS: list[Callable[[], Any]] = [
    lambda: DATA,
    lambda: bytearray(DATA),
    lambda: memoryview(DATA),
    lambda: memoryview(DATA).cast("I", [3, 4]),
    lambda: array.array("H", DATA),
    lambda: np.frombuffer(DATA, np.uint8),
    lambda: np.frombuffer(DATA, np.float32).reshape(3, 4),
    lambda: np.frombuffer(DATA, "datetime64[s]"),
    lambda: np.frombuffer(DATA, ">i2"),
]
DTYPES = [
    torch.uint8,
    torch.int16,
    torch.float16,
    torch.bfloat16,
    torch.float32,
    torch.float64,
    torch.complex64,
    torch.float8_e4m3fn,
    torch.float8_e5m2,
]


@pytest.mark.parametrize("make", KINDS)
def test_bytes_of_a_buffer(make: Callable[[], Any]) -> None:
    view = byte_view(make())
    assert (view.format, view.ndim, bytes(view)) == ("B", 1, DATA)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_bytes_of_a_tensor(dtype: torch.dtype) -> None:
    tensor = torch.frombuffer(bytearray(DATA), dtype=dtype).reshape(2, -1)
    assert bytes(byte_view(tensor)) == DATA
    assert bytes(byte_view(tensor[1:])) == DATA[24:]


def test_nothing_is_copied() -> None:
    tensor = torch.zeros(4, dtype=torch.int32)
    numbers = np.zeros(4, np.int32)
    mapped = mmap.mmap(-1, 16)
    views = [byte_view(tensor), byte_view(numbers), byte_view(mapped)]
    tensor[1] = numbers[1] = 7
    mapped[4] = 7
    assert [view[4] for view in views] == [7, 7, 7]


def test_a_view_outlives_the_name_of_its_tensor() -> None:
    view = byte_view(torch.full((1000,), 7, dtype=torch.uint8))
    torch.full((1000,), 9, dtype=torch.uint8)
    assert set(bytes(view)) == {7}


def test_empty_buffers() -> None:
    assert (
        byte_view(b"").nbytes
        == byte_view(torch.empty(0, 5)).nbytes
        == byte_view(np.empty((0, 3))).nbytes
        == 0
    )


UNREADABLE: list[tuple[Callable[[], Any], type[Exception], str]] = [
    (lambda: torch.zeros(4, 4)[:, 1], ValueError, r"shape \(4,\) and strides \(4,\) is not contiguous"),
    (lambda: torch.zeros(4, device="meta"), ValueError, "tensor on meta: .*host memory"),
    (lambda: np.zeros((4, 4)).T[1:], ValueError, "is not contiguous"),
    (lambda: memoryview(DATA)[::2], ValueError, "is not contiguous"),
    (lambda: [1, 2, 3], TypeError, "list is no buffer: give"),
]


@pytest.mark.parametrize(("make", "kind", "reason"), UNREADABLE)
def test_says_why_a_buffer_cannot_be_read(
    make: Callable[[], Any], kind: type[Exception], reason: str
) -> None:
    with pytest.raises(kind, match=reason):
        byte_view(make())
