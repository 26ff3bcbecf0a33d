"""Rooms on a GPU for the benchmarks: pools of random pages, page sets that are cold, times by events."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch

from pd_tracer_hooks.digest.backend import Pool
from pd_tracer_hooks.digest.gpu.launch import Kernel, Sums, compile_digest
from pd_tracer_hooks.digest.gpu.plan import Block, Tuning, tuning_for
from pd_tracer_hooks.digest.gpu.scratch import WORD
from pd_tracer_hooks.digest.gpu.tables import Tables
from pd_tracer_hooks.layout import DSA_INDEX_K, PageLayout

LAYERS = 61
#: Pages a layer in the largest pool: three rooms of 128k tokens.
HELD = 3 * 2048
#: Bytes that a round over the page lists reads at least: none is left in the cache when it comes again.
ROUND_BYTES = 512e6

LAYOUTS = {
    "index-K": DSA_INDEX_K,
    "index-K bf16": PageLayout.plain(64, 256, "bfloat16"),
    "KV fp8": PageLayout.plain(64, 656),
    "KV bf16": PageLayout.plain(64, 1152, "bfloat16"),
}
ROOMS = {"1k": 16, "8k": 128, "64k": 1024, "128k": 2048}


def gpu_ms(work: Callable[[], object], repeats: int = 15) -> list[float]:
    """GPU milliseconds of each of ``repeats`` runs of ``work``, after one that is not counted."""
    work()
    times = []
    for _ in range(repeats):
        began, ended = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        torch.cuda.synchronize()
        began.record()
        work()
        ended.record()
        torch.cuda.synchronize()
        times.append(began.elapsed_time(ended))
    return times


def captured(work: Callable[[], object]) -> torch.cuda.CUDAGraph:
    """``work`` as a graph."""
    work()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        work()
    return graph


def median_us(work: Callable[[], object], per: int, repeats: int = 15) -> float:
    """Median GPU microseconds of a graph that does ``work``, for each of the ``per`` launches in it."""
    return statistics.median(gpu_ms(captured(work).replay, repeats)) * 1000 / per


@dataclass(frozen=True)
class Rooms:
    """A pool with room for several rooms, and their page lists."""

    layout: PageLayout
    layers: int = LAYERS
    held: int = HELD

    @cached_property
    def pool(self) -> Pool:
        buffers = {}
        for layer in range(self.layers):
            words = torch.empty(self.held * self.layout.page_bytes // 8, dtype=torch.int64, device="cuda")
            buffers[layer] = words.random_(-(1 << 63), None)
        return Pool("kv", self.layout, buffers)

    @cached_property
    def tables(self) -> Tables:
        return Tables(self.pool)

    def page_lists(self, pages: int) -> list[np.ndarray]:
        """Disjoint lists of scattered pages, as int32, enough of them to be cold each time."""
        one = pages * self.layers * self.layout.page_bytes
        sets = min(self.held // pages, max(3, -(-int(ROUND_BYTES) // one)))
        chance = np.random.default_rng(pages)
        return list(chance.permutation(self.held).astype(np.int32)[: sets * pages].reshape(sets, pages))

    def kernel(self, tuning: Tuning, *, mix: bool = True) -> Kernel:
        return compile_digest(self.tables.geometry, tuning, fold=True, mix=mix)

    def launches(self, kernel: Kernel | None, pages: int, *, ends: int = 0) -> tuple[Callable[[], None], int]:
        """Launches over all page lists, one after the other, and how many there are. By default our kernel.

        ``ends``: only the first and the last so many pages of each list.
        """
        lists = self.page_lists(2 * ends or pages)
        ordinals = np.r_[:ends, pages - ends : pages] if ends else np.arange(pages)
        read = len(ordinals)
        sums = Sums.of(pages, ends or 2, not ends)
        if kernel is None:
            kernel = self.kernel(tuning_for(self.layout.page_bytes, self.layers * read))
        block = Block(self.tables.geometry.header_words, self.layers, read, rows=False)
        words = np.zeros((len(lists), -(-block.words // 16) * 16), np.int64)
        layers = tuple(range(self.layers))
        for row, each in zip(words, lists, strict=True):
            self.tables.fill(row, block, layers=layers, pages=each, last_rows=None, ordinals=ordinals)
        device = torch.from_numpy(words).cuda()

        def work() -> None:
            stream = torch.cuda.current_stream().cuda_stream
            for row in range(len(lists)):
                table = device.data_ptr() + WORD * words.shape[1] * row
                kernel.launch(
                    stream,
                    table=table,
                    result=table + WORD * block.result,
                    block=block,
                    partial=False,
                    page_limit=self.held,
                    sums=sums,
                )

        return work, len(lists)

    def room_bytes(self, pages: int) -> int:
        return pages * self.layers * self.layout.page_bytes


def each_layout() -> Iterator[tuple[str, Rooms]]:
    """One layout after the other; a pool's memory is given back before the next."""
    for name, layout in LAYOUTS.items():
        yield name, Rooms(layout)
        torch.cuda.empty_cache()
