"""A digest under way on the device, and what is read out of its block once it is done."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from pd_tracer_hooks.digest.backend import FoldSpec, PageDigests
from pd_tracer_hooks.digest.definition import MASK, MAX_BUCKETS, head_pages, tail_pages
from pd_tracer_hooks.digest.fold import Folded
from pd_tracer_hooks.digest.gpu.plan import CELL_SUMS, COPIES, NO_TIME, TIME_SLOTS, Block
from pd_tracer_hooks.u64s import U64s

if TYPE_CHECKING:
    from pd_tracer_hooks.digest.gpu.clock import GpuClock
    from pd_tracer_hooks.digest.gpu.driver import Driver
    from pd_tracer_hooks.digest.gpu.scratch import Lease, Scratch


class GpuPending:
    """A digest that was launched: holds a block of scratch until it is read, or dropped."""

    __slots__ = (
        "_block",
        "_clock",
        "_driver",
        "_fold",
        "_layers",
        "_lease",
        "_ordinals",
        "_outcome",
        "_scratch",
    )

    def __init__(  # noqa: PLR0917 - the engine's thread pays for each keyword
        self,
        driver: Driver,
        scratch: Scratch,
        clock: GpuClock,
        lease: Lease,
        block: Block,
        layers: tuple[int, ...],
        fold: FoldSpec | None,
        ordinals: Any,
    ) -> None:
        self._driver, self._scratch, self._clock = driver, scratch, clock
        self._lease: Lease | None = lease
        self._block, self._layers, self._fold, self._ordinals = block, layers, fold, ordinals
        self._outcome: PageDigests | Exception | None = None

    def ready(self) -> bool:
        """Whether the device has come so far. Never waits."""
        if self._lease is None:
            return True
        self._driver.enter()
        return self._driver.passed(self._lease.event)

    def result(self) -> PageDigests:
        """The digests; waits for the device if they are not ready. For one thread at a time.

        Raises ``ValueError`` if pages lay outside the pool, or ordinals outside the transfer or repeated, and
        :class:`~.driver.DriverError` for a fault of the device.
        """
        if self._lease is not None:
            self._driver.enter()
            self._driver.wait(self._lease.event)
            words = self._scratch.host[self._lease.start :][: self._block.words]
            try:
                self._outcome = self._read(words)
            except Exception as error:
                self._outcome = error
            lease, self._lease = self._lease, None
            self._scratch.give(lease)
            self._clock.refresh()
        if isinstance(self._outcome, Exception):
            raise self._outcome
        assert self._outcome is not None
        return self._outcome

    def __del__(self) -> None:
        if self._lease is not None:
            self._scratch.abandon(self._lease)

    def _read(self, words: Any) -> PageDigests:
        block = self._block
        outside = int(words[block.outside])
        if outside:
            raise ValueError(
                f"{outside} cells name a page that the pool does not have, or an ordinal beyond the transfer"
            )
        latest = words[block.result : block.outside].reshape(TIME_SLOTS, 2).max(axis=0)
        assert latest[1] != NO_TIME
        timer = self._clock.map
        return PageDigests(
            self._layers,
            block.pages,
            words[block.digests : block.words].tobytes(),
            timer.host_seconds(-int(latest[0])),
            timer.host_seconds(int(latest[1])),
            timer.error_seconds(),
            self._folded(words, self._fold) if self._fold is not None else None,
        )

    def _folded(self, words: Any, spec: FoldSpec) -> Folded:
        block, ordinals = self._block, np.asarray(self._ordinals)
        if len(np.unique(ordinals)) != len(ordinals):
            raise ValueError("ordinals repeat: a page counts once in a part")
        head, tail = head_pages(spec.total_pages, spec.k), tail_pages(spec.total_pages, spec.k)
        counts = (
            int((ordinals < head.stop).sum()),
            int((ordinals >= tail.start).sum()),
            block.pages if spec.full else 0,
        )
        count = min(MAX_BUCKETS, spec.total_pages) if spec.full else 0
        copies = words[block.sums : block.row_sums].view(np.uint64).reshape(COPIES, CELL_SUMS)
        cell_sums = copies.sum(axis=0, dtype=np.uint64)
        ends, buckets = cell_sums[:2], cell_sums[2 : 2 + count]
        rows = U64s()
        if block.row_copies:
            row_copies = words[block.row_sums : block.digests].view(np.uint64).reshape(block.row_copies, -1)
            rows = U64s(row_copies.sum(axis=0, dtype=np.uint64).tobytes())
        body = int(buckets.sum(dtype=np.uint64)) & MASK
        head_cells, tail_cells, body_cells = (block.layers * pages for pages in counts)
        return Folded(
            U64s.of((int(ends[0]), int(ends[1]), body)),
            (head_cells, tail_cells, body_cells),
            U64s(buckets.tobytes()),
            rows,
        )
