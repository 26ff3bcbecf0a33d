"""The seam between what is to be digested and how: a CPU path now, a GPU path beside it.

A :class:`DigestBackend` is given pages by :class:`DigestRequest` and answers at once with a
:class:`PendingDigest`, which a background thread asks until it is ready. A path that computes at once
(the CPU's) answers with one that is ready from the start; a path on a device launches and returns.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from pd_tracer_hooks.layout import PageLayout


@dataclass(frozen=True)
class Pool:
    """One component's memory in this worker: a buffer a layer, all of one layout.

    ``buffers`` maps a global layer id to whatever holds that layer's pages one after another, page
    ``i`` at byte ``i * layout.page_bytes``: a contiguous torch tensor, or anything with the buffer
    protocol. Layers that own no buffer are absent.
    """

    component: str
    layout: PageLayout
    buffers: Mapping[int, Any]


@dataclass(frozen=True)
class DigestRequest:
    """Digest pages of some layers of a pool.

    ``pages`` are physical page ids in transfer order; ``last_rows`` is the number of valid rows of the
    last of them (None: it is full). All others are full.
    """

    pool: Pool
    layers: Sequence[int]
    pages: Sequence[int]
    last_rows: int | None = None


@dataclass(frozen=True)
class PageDigests:
    """Page digests of ``layers`` x pages, row-major by layer, as little-endian u64 in ``data``.

    ``read_started`` and ``read_ended``: when the pages were read, in seconds of the host's wall clock.
    """

    layers: tuple[int, ...]
    pages: int
    data: bytes
    read_started: float
    read_ended: float


class PendingDigest(Protocol):
    """A digest that was launched."""

    def ready(self) -> bool:
        """Whether :meth:`result` returns without waiting. Never blocks."""
        ...

    def result(self) -> PageDigests:
        """The digests; waits if they are not ready. Raises what the launch or the read raised."""
        ...


class DigestBackend(Protocol):
    """One way to compute page digests."""

    name: str

    def launch(self, request: DigestRequest) -> PendingDigest:
        """Begin to digest. May be called on an engine's thread, so it must not wait for a device."""
        ...
