"""What a transfer is asked to move: one copy for every page of every layer. Pure, and where faults cut in."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class Pages:
    """Physical ``pages`` on one side, whose layers' buffers lie at ``buffers`` (layer -> address)."""

    buffers: Mapping[int, int]
    pages: Sequence[int]


@dataclass(frozen=True)
class Copies:
    """Copies of one component, as parallel arrays: ``size`` bytes from ``source`` to ``target``.

    ``layers`` and ``ordinals`` say which cell a copy carries; addresses are those of each side's process.
    """

    component: str
    layers: NDArray[np.int64]
    ordinals: NDArray[np.int64]
    source: NDArray[np.uint64]
    target: NDArray[np.uint64]
    size: NDArray[np.uint64]

    def __len__(self) -> int:
        return len(self.layers)

    @property
    def total(self) -> int:
        """Bytes of all copies."""
        return int(self.size.sum())

    def where(self, mask: NDArray[np.bool_]) -> Copies:
        """Those copies for which ``mask`` holds."""
        return Copies(
            self.component,
            self.layers[mask],
            self.ordinals[mask],
            self.source[mask],
            self.target[mask],
            self.size[mask],
        )

    def cells(self, layers: Sequence[int], ordinals: Sequence[int]) -> NDArray[np.bool_]:
        """A mask of the copies that carry a cell of ``layers`` x ``ordinals``."""
        return np.isin(self.layers, layers) & np.isin(self.ordinals, ordinals)


def page_copies(
    component: str,
    page_bytes: int,
    source: Pages,
    target: Pages,
    first: int = 0,
    *,
    target_page_bytes: int | None = None,
) -> Copies:
    """Copy whole pages in every layer, as engines do: unused rows of the last page go along.

    ``first`` is the ordinal of the first page, ``target_page_bytes`` the size of a target page where it is
    another. Raises ``ValueError`` if the two sides differ in pages or
    layers.
    """
    count = len(source.pages)
    if count != len(target.pages):
        raise ValueError(f"{component}: {count} pages to send, {len(target.pages)} to receive")
    if source.buffers.keys() != target.buffers.keys():
        raise ValueError(
            f"{component}: layers {sorted(source.buffers)} to send, {sorted(target.buffers)} to receive"
        )
    layers = np.array(sorted(source.buffers), dtype=np.int64)
    return Copies(
        component=component,
        layers=np.repeat(layers, count),
        ordinals=np.tile(np.arange(first, first + count, dtype=np.int64), len(layers)),
        source=_addresses(source, page_bytes),
        target=_addresses(target, target_page_bytes or page_bytes),
        size=np.full(count * len(layers), page_bytes, dtype=np.uint64),
    )


def _addresses(side: Pages, page_bytes: int) -> NDArray[np.uint64]:
    """Addresses of all pages of the lowest layer, then of the next."""
    bases = np.array([side.buffers[layer] for layer in sorted(side.buffers)], dtype=np.uint64)
    offsets = np.array(side.pages, dtype=np.uint64) * np.uint64(page_bytes)
    return (bases[:, None] + offsets).reshape(-1)
