"""Page lists as plain integers, read from whatever the engine passes, without waiting for a device."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any

_WIDTHS: dict[int, Any] = {4: ctypes.c_int32, 8: ctypes.c_int64}


def on_host(indices: Any) -> bool:
    """Whether ``indices`` lies in host memory (a list, a numpy array or a CPU tensor)."""
    device = getattr(indices, "device", None)
    return device is None or isinstance(device, str) or getattr(device, "type", "cpu") == "cpu"


def as_pages(indices: Any) -> list[int]:
    """Integers of a page list in host memory, whose copy from a device, if any, is done.

    A tensor is read through its address: its own converters would wait for a device where it has one.
    Raises ``ValueError`` for a list that lies on a device.
    """
    if indices is None:
        return []
    if not on_host(indices):
        raise ValueError(f"a page list on {indices.device}: only lists in host memory are read")
    if hasattr(indices, "data_ptr"):
        held = indices.contiguous()
        count = int(held.numel())
        kind = _WIDTHS.get(int(held.element_size()))
        if kind is None:
            raise ValueError(f"a page list of {held.dtype}: expected 32 or 64 bits an entry")
        return list((kind * count).from_address(int(held.data_ptr()))) if count else []
    if hasattr(indices, "tolist"):
        return [int(page) for page in indices.tolist()]
    return [int(page) for page in indices]


def as_states(states: Any) -> list[list[int] | None]:
    """One page list for each state. To 0.5.11 there is one state, and its list is flat."""
    if states is None:
        return []
    items: Sequence[Any] = list(states)
    if items and all(_is_number(item) for item in items):
        return [[int(item) for item in items]]
    return [None if item is None else as_pages(item) for item in items]


def _is_number(item: Any) -> bool:
    return item is not None and not hasattr(item, "__len__") and not hasattr(item, "data_ptr")
