"""Filling a call's table: what does not change between calls is kept ready, the rest is copied once."""

from __future__ import annotations

import struct
from functools import lru_cache
from typing import Any

import numpy as np

from pd_tracer_hooks.digest.backend import Pool
from pd_tracer_hooks.digest.gpu.plan import Block, Geometry, initial_result

#: A kernel's integers have 32 bits.
_MOST = (1 << 31) - 1


def numbers_of(numbers: Any) -> Any:
    """A list of integers as an array (numpy arrays as they are). Raises for what is none.

    A tensor on a device is refused by its own conversion, which would have to wait for it.
    """
    if type(numbers) is np.ndarray and numbers.ndim == 1 and numbers.dtype.kind in "iu":
        return numbers
    if isinstance(numbers, range):
        return np.arange(numbers.start, numbers.stop, numbers.step)
    if isinstance(numbers, (list, tuple)):
        return np.frombuffer(struct.pack(f"{len(numbers)}q", *numbers), np.int64)
    converted = np.asarray(numbers)
    if converted.ndim != 1 or converted.dtype.kind not in "iu":
        raise TypeError(f"pages: a flat list of integers is needed, not {converted.dtype}{converted.shape}")
    return converted


class Tables:
    """The tables of one pool. Keeps the pool's buffers alive, since tables hold their addresses."""

    def __init__(self, pool: Pool) -> None:
        self.pool = pool
        self._addresses = {layer: _address(pool, layer) for layer in pool.buffers}
        self.geometry = Geometry.of(pool.layout, self._addresses.values())
        #: Pages that every layer's buffer has.
        self.page_limit = min(_held(pool, layer) for layer in pool.buffers)
        if not 1 <= self.page_limit <= _MOST:
            raise ValueError(f"{pool.component}: buffers of {self.page_limit} pages cannot be digested")
        self.front = lru_cache(maxsize=4096)(self._front)

    def _front(self, last_rows: int | None, layers: tuple[int, ...]) -> Any:
        """The table down to the page ids, but for the number of pages."""
        rows = self.pool.layout.rows
        if last_rows is not None and not 1 <= last_rows <= rows:
            raise ValueError(
                f"last_rows={last_rows}: a page of {self.pool.component} has 1 to {rows} valid rows; "
                "leave a page without one out of the request"
            )
        missing = [layer for layer in layers if layer not in self._addresses]
        if missing:
            have = sorted(self._addresses)
            raise ValueError(f"layer {missing[0]}: {self.pool.component} has buffers for {have}")
        addresses = [self._addresses[layer] for layer in layers]
        return np.array([*self.geometry.header(0, last_rows), *addresses, *layers], np.int64)

    def fill(  # noqa: PLR0917 - the engine's thread pays for each keyword
        self,
        words: Any,
        block: Block,
        layers: tuple[int, ...],
        pages: Any,
        last_rows: int | None,
        ordinals: Any,
    ) -> bool:
        """Write the table into ``words``, the block's pinned words. Whether the last page is partial."""
        front = self.front(last_rows, layers)
        ids, places, result = block.page_ids, block.ordinals, block.result
        words[:ids] = front
        words[0] = len(pages)
        words[ids:places] = pages
        if ordinals is not None:
            if len(ordinals) != len(pages):
                raise ValueError(f"{len(ordinals)} ordinals for {len(pages)} pages: give one for each")
            words[places:result] = ordinals
        words[result : block.digests] = _initial(block.layers, block.row_copies)
        return bool(front[1])


@lru_cache(maxsize=256)
def _initial(layers: int, row_copies: int) -> Any:
    return np.array(initial_result(layers, row_copies), np.int64)


def _address(pool: Pool, layer: int) -> int:
    buffer = pool.buffers[layer]
    if not getattr(buffer, "is_cuda", False):
        raise ValueError(
            f"layer {layer} of {pool.component} is not on a CUDA device: use the CPU path for it"
        )
    if not buffer.is_contiguous():
        raise ValueError(f"layer {layer} of {pool.component}: a buffer with strides {buffer.stride()}")
    return int(buffer.data_ptr())


def _held(pool: Pool, layer: int) -> int:
    buffer = pool.buffers[layer]
    return int(buffer.numel() * buffer.element_size()) // pool.layout.page_bytes
