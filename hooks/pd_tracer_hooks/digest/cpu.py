"""The digest's CPU path: for pages in host memory, with numpy where it is there.

What this path does not do: look at device memory, or wait for anything. It computes at once, on the
calling thread, at a few GB/s at best; without numpy it falls back to the definition, about a thousand
times slower.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from operator import index

from pd_tracer_hooks.digest import definition
from pd_tracer_hooks.digest.backend import DigestRequest, PageDigests, Pool
from pd_tracer_hooks.digest.memory import byte_view
from pd_tracer_hooks.digest.mixing import load_numpy
from pd_tracer_hooks.layout import PageLayout
from pd_tracer_hooks.u64s import U64s


@dataclass(frozen=True)
class Computed:
    """A digest that was ready when it was launched, or the fault that it met."""

    outcome: PageDigests | Exception

    def ready(self) -> bool:
        """Always."""
        return True

    def result(self) -> PageDigests:
        """The digests. Raises the fault that was met."""
        if isinstance(self.outcome, Exception):
            raise self.outcome
        return self.outcome


class CpuBackend:
    """Digests pages in host memory, at once. It leaves the fold to its caller."""

    name = "cpu"

    def prepare(self, pool: Pool) -> None:
        """Load numpy, if it is there. Raises ``ValueError`` or ``TypeError`` for an unreadable buffer."""
        load_numpy()
        for buffer in pool.buffers.values():
            byte_view(buffer)

    def launch(self, request: DigestRequest) -> Computed:
        """Digest what ``request`` names, now. Never raises: :meth:`Computed.result` does.

        It raises ``ValueError`` for a layer that the pool lacks, a page outside its buffer, a number of
        valid rows that the layout does not have, or memory that is not contiguous or not on the host;
        ``TypeError`` for what is no buffer.
        """
        try:
            return Computed(_digest(request))
        except Exception as error:
            return Computed(error)


def _digest(request: DigestRequest) -> PageDigests:
    pages = list(map(index, request.pages))  # numpy's integers and arrays are welcome too
    if pages:
        _check_last_rows(request)
    started = time.time()
    data = _digest_layers(request, pages, ordered=True)
    order_free = _digest_layers(request, pages, ordered=False) if request.order_free else b""
    return PageDigests(tuple(request.layers), len(pages), data, started, time.time(), order_free=order_free)


def _digest_layers(request: DigestRequest, pages: Sequence[int], *, ordered: bool) -> bytes:
    layout = request.pool.layout
    return b"".join(
        _digest_layer(_layer_memory(request.pool, layer, pages), layout, pages, request.last_rows, ordered)
        for layer in request.layers
    )


def _check_last_rows(request: DigestRequest) -> None:
    rows, last_rows = request.pool.layout.rows, request.last_rows
    if last_rows is not None and not 1 <= last_rows <= rows:
        raise ValueError(
            f"last_rows={last_rows}: a page of {request.pool.component} has 1 to {rows} valid rows; "
            "leave a page without one out of the request"
        )


def _layer_memory(pool: Pool, layer: int, pages: Sequence[int]) -> memoryview:
    if layer not in pool.buffers:
        raise ValueError(f"layer {layer}: {pool.component} has buffers for {sorted(pool.buffers)}")
    memory = byte_view(pool.buffers[layer])
    held = len(memory) // pool.layout.page_bytes
    if pages and not (min(pages) >= 0 and max(pages) < held):
        bad = next(page for page in pages if not 0 <= page < held)
        raise ValueError(f"page {bad}: {pool.component}'s buffer of layer {layer} has {held} pages")
    return memory


def _digest_layer(
    memory: memoryview, layout: PageLayout, pages: Sequence[int], last_rows: int | None, ordered: bool
) -> bytes:
    """Digests of one layer's pages, packed. All pages are full but, where ``last_rows`` says so, the last."""
    if last_rows is None or last_rows == layout.rows or not pages:
        return _digest_alike(memory, layout, pages, None, ordered)
    return _digest_alike(memory, layout, pages[:-1], None, ordered) + _digest_alike(
        memory, layout, pages[-1:], last_rows, ordered
    )


def _digest_alike(
    memory: memoryview, layout: PageLayout, pages: Sequence[int], rows: int | None, ordered: bool
) -> bytes:
    """Digests (or order-free sums) of pages that all have the same number of valid rows, packed."""
    if not pages:
        return b""
    spans = layout.valid_spans(rows)
    if load_numpy() is not None:
        from pd_tracer_hooks.digest.blocks import digest_pages  # noqa: PLC0415 - needs numpy

        return digest_pages(memory, layout.page_bytes, pages, spans, ordered=ordered).tobytes()
    one = definition.page_digest if ordered else definition.order_free_digest
    starts = [page * layout.page_bytes for page in pages]
    return U64s.of(
        one(*(bytes(memory[at + offset : at + offset + size]) for offset, size in spans)) for at in starts
    )
