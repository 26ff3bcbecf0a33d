"""Compiling the kernel for a geometry, and launching it without the work a Triton launch repeats."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch

from pd_tracer_hooks.digest.definition import MAX_BUCKETS
from pd_tracer_hooks.digest.gpu.kernel import digest_pages, read_timer
from pd_tracer_hooks.digest.gpu.plan import Block, Geometry, Tuning

#: Arguments of the kernel before its constants: two pointers and nine integers.
_POINTERS, _INTEGERS = 2, 9


class Sums(NamedTuple):
    """Which sums a launch adds up: see :func:`~.kernel.digest_pages`."""

    total_pages: int = 1
    ends: int = 0
    buckets: int = 0

    @classmethod
    def of(cls, total_pages: int, k: int, full: bool) -> Sums:
        """Sums of a transfer of ``total_pages`` pages with ``k`` in head and in tail."""
        pages = max(total_pages, 1)
        return cls(pages, min(k, pages), min(MAX_BUCKETS, pages) if full else 0)


NO_SUMS = Sums()


class Kernel:
    """The kernel compiled for one geometry and one use.

    Calls Triton's launcher for it straight away. Triton's own launch would work out again for each call
    which kernel is meant, and call its launch hooks, which costs more than the rest of the pattern.
    """

    def __init__(self, compiled: Any, constants: tuple[Any, ...]) -> None:
        self.compiled, self.constants = compiled, constants
        self._run = compiled.run  # loads the code onto the device
        #: Code, its metadata; then what launch hooks would be given, and no hooks.
        self._fixed = (compiled.function, compiled.packed_metadata, None, None, None)

    def launch(
        self,
        stream: int,
        *,
        table: int,
        result: int,
        block: Block,
        partial: bool,
        page_limit: int,
        sums: Sums = NO_SUMS,
        programs: int = 0,
    ) -> None:
        """Enqueue it on a block whose table and result have these addresses on the device.

        ``programs``: how many programs share a layer's pages (0: one a page).
        """
        pages, layers = block.pages, block.layers
        numbers = (layers, pages, pages, int(partial), page_limit, *sums, block.row_copies)
        self._run(
            programs or pages, layers, 1, stream, *self._fixed, table, result, *numbers, *self.constants
        )


def compile_digest(
    geometry: Geometry,
    tuning: Tuning,
    *,
    fold: bool,
    listed: bool = False,
    timed: bool = True,
    mix: bool = True,
) -> Kernel:
    """Compile and load the kernel for the current device: takes up to a second.

    ``listed``: the number of pages stands in the table, for graphs. ``mix=False`` gives the plain sum of
    the words, the speed limit that the digest is measured against.
    """
    offset, size = geometry.full or (0, 0)
    constants = {
        "PAGE_BYTES": geometry.layout.page_bytes,
        "FULL_OFFSET": offset,
        "FULL_BYTES": size,
        "SEGMENTS": geometry.segments,
        "ALIGN": geometry.align,
        "BLOCK": tuning.block,
        "FOLD": fold,
        "LISTED": listed,
        "TIMED": timed,
        "MIX": mix,
    }
    # Typed placeholders: nothing is specialised on their values.
    placeholders = [torch.int64] * _POINTERS + [2] * _INTEGERS
    options = {"num_warps": tuning.warps}
    if tuning.registers is not None:
        options["maxnreg"] = tuning.registers
    compiled = digest_pages.warmup(*placeholders, grid=(1, 1, 1), **options, **constants)
    return Kernel(compiled, tuple(constants.values()))


def compile_timer() -> Any:
    """The kernel that stores the GPU's timer, compiled: call as ``timer[(1, 1, 1)](address, stream=...)``."""
    compiled = read_timer.warmup(torch.int64, grid=(1, 1, 1), num_warps=1)
    _ = compiled.run
    return compiled
