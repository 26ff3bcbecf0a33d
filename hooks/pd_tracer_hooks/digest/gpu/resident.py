"""A digest whose page list lives on the device: for CUDA graphs, which fix their launches when captured."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from pd_tracer_hooks.digest.gpu.driver import Driver
from pd_tracer_hooks.digest.gpu.launch import compile_digest
from pd_tracer_hooks.digest.gpu.plan import Block, tuning_for
from pd_tracer_hooks.digest.gpu.scratch import WORD, Scratch
from pd_tracer_hooks.digest.gpu.tables import Tables, numbers_of

#: Programs at most, shared by the layers: one a cell as far as that goes. Without a page one ends at once.
_PROGRAMS = 1 << 15


class ResidentDigest:
    """Page digests of some layers of a pool, of up to ``capacity`` pages named on the device.

    :meth:`launch` may be captured in a graph; each replay digests the pages that :meth:`set_pages` named
    last, in the order of the stream. Holds scratch until :meth:`close`.
    """

    def __init__(
        self,
        driver: Driver,
        scratch: Scratch,
        device: torch.device,
        *,
        tables: Tables,
        layers: tuple[int, ...],
        capacity: int,
    ) -> None:
        self._driver, self._scratch, self._device, self._tables = driver, scratch, device, tables
        self._layers = layers
        self._block = Block(tables.geometry.header_words, len(layers), capacity, rows=False)
        tuning = tuning_for(tables.geometry.layout.page_bytes, len(layers) * capacity)
        self._kernel = compile_digest(tables.geometry, tuning, fold=False, listed=True, timed=False)
        self._programs = min(capacity, max(1, _PROGRAMS // len(layers)))
        self._lease = scratch.take(self._block.words)
        words = scratch.device[self._lease.start :][: self._block.words]
        #: The digests, (layers, capacity), as signed 64-bit integers on the device.
        self.digests = words[self._block.digests :].view(len(layers), capacity)
        words.zero_()

    def set_pages(self, pages: Sequence[int], last_rows: int | None = None) -> None:
        """Name the pages, on the current stream. Raises ``ValueError`` for more than the capacity.

        The list is sent from one piece of pinned memory: call it again only when the last one has arrived.
        """
        numbers, block, lease = numbers_of(pages), self._block, self._lease
        if len(numbers) > block.pages:
            raise ValueError(f"{len(numbers)} pages: this digest has room for {block.pages}")
        words = self._scratch.host[lease.start : lease.start + block.ordinals]
        words[: block.page_ids] = self._tables.front(last_rows, self._layers)
        words[0] = len(numbers)
        words[block.page_ids : block.page_ids + len(numbers)] = numbers
        stream = torch.cuda.current_stream(self._device).cuda_stream
        self._driver.to_device(lease.device_address, lease.host_address, WORD * block.ordinals, stream)

    def launch(self) -> None:
        """Enqueue the digest on the current stream, or record it there into the graph being captured."""
        lease, block = self._lease, self._block
        self._kernel.launch(
            int(torch.cuda.current_stream(self._device).cuda_stream),
            table=lease.device_address,
            result=lease.device_address + WORD * block.result,
            block=block,
            partial=False,
            page_limit=self._tables.page_limit,
            programs=self._programs,
        )

    def close(self) -> None:
        """Give the scratch back. Graphs that hold the launch must not be replayed any more."""
        self._scratch.give(self._lease)
