"""The GPU's :class:`~..backend.DigestBackend`: a table up, one launch, the result down, an event.

On an engine's thread :meth:`GpuBackend.launch` only enqueues; nothing there waits for the device, compiles
or allocates memory of the device. Pages are held by nobody meanwhile: whether they still belonged to the
room is :mod:`pd_tracer_hooks.ownership`'s to say.
"""

from __future__ import annotations

import random
import time
from typing import Any

import torch

from pd_tracer_hooks.digest.backend import DigestRequest, FoldSpec, PageDigests, PendingDigest, Pool
from pd_tracer_hooks.digest.cpu import Computed
from pd_tracer_hooks.digest.fold import fold
from pd_tracer_hooks.digest.gpu.clock import GpuClock
from pd_tracer_hooks.digest.gpu.driver import Driver
from pd_tracer_hooks.digest.gpu.launch import NO_SUMS, Kernel, Sums, compile_digest
from pd_tracer_hooks.digest.gpu.pending import GpuPending
from pd_tracer_hooks.digest.gpu.plan import Block, Tuning, tuning_for, tunings_for
from pd_tracer_hooks.digest.gpu.resident import ResidentDigest
from pd_tracer_hooks.digest.gpu.scratch import WORD, Lease, Scratch
from pd_tracer_hooks.digest.gpu.tables import Tables, numbers_of
from pd_tracer_hooks.digest.pages import page_digest
from pd_tracer_hooks.layout import PageLayout

DEFAULT_SCRATCH_BYTES = 32 << 20
#: Digests under way at once, at most.
DEFAULT_UNDER_WAY = 256


class SelfTestError(RuntimeError):
    """The device's digest of known bytes is not the definition's."""


class _Prepared:
    """A pool that was prepared: its tables, and the kernel without and with sums."""

    def __init__(self, pool: Pool) -> None:
        self.tables = Tables(pool)
        geometry = self.tables.geometry
        self.kernels = {
            (tuning, folds): compile_digest(geometry, tuning, fold=folds)
            for tuning in dict.fromkeys(tunings_for(geometry.layout.page_bytes))
            for folds in (False, True)
        }

    def kernel(self, cells: int, *, fold: bool) -> Kernel:
        """The kernel for a call of so many cells."""
        return self.kernels[tuning_for(self.tables.geometry.layout.page_bytes, cells), fold]


class GpuBackend:
    """Digests pages in the memory of one CUDA device.

    Takes ``scratch_bytes`` of device memory (and as much pinned memory) now and no more later, so make it
    before the engine sizes its pools; at most 64 MiB. Raises where there is no device, driver or Triton.
    """

    name = "gpu"

    def __init__(
        self,
        device: int | None = None,
        *,
        scratch_bytes: int = DEFAULT_SCRATCH_BYTES,
        under_way: int = DEFAULT_UNDER_WAY,
    ) -> None:
        self._device = torch.device("cuda", torch.cuda.current_device() if device is None else device)
        with torch.cuda.device(self._device):
            torch.cuda.synchronize()  # makes the context, if this is its first use
            self._driver = Driver()
            # Ahead of queued work, so that pages are read when the engine says that they have arrived.
            self._own = self._driver.create_stream()
            self._scratch = Scratch(self._driver, self._device, scratch_bytes, under_way)
            torch.cuda.synchronize()
            self.clock = GpuClock(self._driver, self._scratch)
        self._prepared: dict[int, _Prepared] = {}

    def prepare(self, pool: Pool) -> None:
        """Compile and load what ``pool`` needs, and check it against the definition on known bytes.

        Takes about a second for a new layout; repeated for the same pool it does nothing. Raises
        ``ValueError`` for buffers that are not contiguous on this device, :class:`SelfTestError`.
        """
        if id(pool) in self._prepared:
            return
        with torch.cuda.device(self._device):
            prepared = _Prepared(pool)
            self._self_test(prepared, pool.layout)
        self._prepared[id(pool)] = prepared

    def launch(self, request: DigestRequest) -> PendingDigest:
        """Begin to digest; waits for nothing. Never raises: the pending digest's ``result`` does."""
        try:
            return self._launch(self._find(request.pool), request)
        except Exception as error:
            return Computed(error)

    def resident(self, pool: Pool, layers: tuple[int, ...], capacity: int) -> ResidentDigest:
        """A digest whose page list stays on the device, to be captured in a graph. Compiles."""
        self.prepare(pool)
        return ResidentDigest(
            self._driver,
            self._scratch,
            self._device,
            tables=self._prepared[id(pool)].tables,
            layers=layers,
            capacity=capacity,
        )

    def scratch_free_bytes(self) -> int:
        """Scratch that no digest under way holds."""
        self._scratch.reclaim()
        return self._scratch.free_bytes()

    def _find(self, pool: Pool) -> _Prepared:
        prepared = self._prepared.get(id(pool))
        if prepared is None:
            raise LookupError(f"pool {pool.component} was not prepared: call prepare() at attach")
        return prepared

    def _launch(self, prepared: _Prepared, request: DigestRequest) -> PendingDigest:
        tables, spec = prepared.tables, request.fold
        layers, pages = tuple(request.layers), numbers_of(request.pages)
        ordinals = None if spec is None else numbers_of(spec.ordinals)
        if not layers or not len(pages):
            return _nothing(layers, len(pages), spec)
        rows = spec is not None and spec.layer_sums
        block = Block(tables.geometry.header_words, len(layers), len(pages), rows=rows)
        lease = self._scratch.take(block.words)
        try:
            words = self._scratch.host[lease.start : lease.start + block.digests]
            partial = tables.fill(
                words, block, layers=layers, pages=pages, last_rows=request.last_rows, ordinals=ordinals
            )
        except BaseException:
            self._scratch.give(lease)
            raise
        self._driver.enter()
        stream = self._own if request.at_once else _current_stream(self._device)
        # From here on the block is in use by the device: after a fault it is not given back.
        kernel = prepared.kernel(block.layers * block.pages, fold=spec is not None)
        self._enqueue(
            kernel,
            stream,
            lease=lease,
            block=block,
            partial=partial,
            page_limit=tables.page_limit,
            sums=NO_SUMS if spec is None else Sums.of(spec.total_pages, spec.k, spec.full),
        )
        return GpuPending(self._driver, self._scratch, self.clock, lease, block, layers, spec, ordinals)

    def _enqueue(
        self,
        kernel: Kernel,
        stream: int,
        *,
        lease: Lease,
        block: Block,
        partial: bool,
        page_limit: int,
        sums: Sums,
    ) -> None:
        driver, device, host = self._driver, lease.device_address, lease.host_address
        result = WORD * block.result
        driver.to_device(device, host, WORD * block.digests, stream)
        kernel.launch(
            stream,
            table=device,
            result=device + result,
            block=block,
            partial=partial,
            page_limit=page_limit,
            sums=sums,
        )
        driver.to_host(host + result, device + result, WORD * (block.words - block.result), stream)
        driver.record(lease.event, stream)

    def _self_test(self, prepared: _Prepared, layout: PageLayout) -> None:
        """Digest two pages of known bytes, the second partly filled, through the whole pattern."""
        lease = self._scratch.take(-(-2 * layout.page_bytes // WORD))
        try:
            known = random.Random(layout.page_bytes).randbytes(2 * layout.page_bytes)  # noqa: S311
            place = self._scratch.device[lease.start :].view(torch.uint8)[: len(known)]
            place.copy_(torch.frombuffer(bytearray(known), dtype=torch.uint8))
            torch.cuda.synchronize()
            rows = (layout.rows + 1) // 2
            halves = known[: layout.page_bytes], known[layout.page_bytes :]
            expected = [
                page_digest(*layout.valid_parts(half, valid))
                for half, valid in zip(halves, (None, rows), strict=True)
            ]
            pool = Pool("self-test", layout, {0: place})
            for tuning, folds in prepared.kernels:
                test = _SelfTest(prepared, tuning, pool)
                spec = FoldSpec(range(2), 2, 1, full=True, layer_sums=True) if folds else None
                request = DigestRequest(pool, (0,), (0, 1), rows, at_once=True, fold=spec)
                digests = self._launch(test, request).result()
                found = [int.from_bytes(digests.data[at : at + 8], "little") for at in (0, 8)]
                if found != expected or (spec is not None and digests.folded != _fold(digests, spec)):
                    raise SelfTestError(f"{layout}: the device says {found}, the definition {expected}")
        finally:
            self._scratch.give(lease)


class _SelfTest(_Prepared):
    """One of a pool's kernels (with sums and without), applied to other memory of the same layout."""

    def __init__(self, prepared: _Prepared, tuning: Tuning, pool: Pool) -> None:
        self.tables = Tables(pool)
        self.kernels = {
            (each, fold): prepared.kernels[tuning, fold]
            for each in tunings_for(pool.layout.page_bytes)
            for fold in (False, True)
        }


def _nothing(layers: tuple[int, ...], pages: int, spec: FoldSpec | None) -> Computed:
    now = time.time()
    digests = PageDigests(layers, pages, b"", now, now)
    if spec is not None:
        digests = PageDigests(layers, pages, b"", now, now, 0.0, _fold(digests, spec))
    return Computed(digests)


def _fold(digests: PageDigests, spec: FoldSpec) -> Any:
    return fold(
        digests,
        ordinals=spec.ordinals,
        total_pages=spec.total_pages,
        k=spec.k,
        full=spec.full,
        layer_sums=spec.layer_sums,
    )


def _current_stream(device: torch.device) -> int:
    # What torch.cuda.current_stream(device).cuda_stream gives, at a tenth of its price.
    return int(torch._C._cuda_getCurrentRawStream(device.index))
