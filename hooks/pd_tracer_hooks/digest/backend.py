"""The seam between what is to be digested and how: a CPU path now, a GPU path beside it.

A :class:`DigestBackend` is given pages by :class:`DigestRequest` and answers at once with a
:class:`PendingDigest`, which a background thread asks until it is ready. A path that computes at once
(the CPU's) answers with one that is ready from the start; a path on a device launches and returns.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from pd_tracer_hooks.layout import PageLayout

if TYPE_CHECKING:
    from pd_tracer_hooks.digest.fold import Folded


class ScratchFull(RuntimeError):  # noqa: N818 - a state, not a fault
    """A backend's bounded memory for digests under way is used up: drop the room and count it."""


@dataclass(frozen=True)
class Pool:
    """One component's memory in this worker: a buffer a layer, all of one layout.

    ``buffers`` maps a global layer id to whatever holds that layer's pages one after another, page
    ``i`` at byte ``i * layout.page_bytes``: a contiguous torch tensor, or anything with the buffer
    protocol. Layers that own no buffer are absent. ``head_slice`` names the heads that this rank holds, where
    ranks hold different ones (empty: all): digests of different slices are not comparable.
    """

    component: str
    layout: PageLayout
    buffers: Mapping[int, Any]
    head_slice: str = ""


@dataclass(frozen=True)
class FoldSpec:
    """How the pages of a request are to be summed: the arguments of :func:`~.fold.fold` of that name."""

    ordinals: Sequence[int]
    total_pages: int
    k: int
    full: bool
    layer_sums: bool = False


@dataclass(frozen=True)
class DigestRequest:
    """Digest pages of some layers of a pool.

    ``pages`` are physical page ids in transfer order; ``last_rows`` is the number of valid rows of the
    last of them (None: it is full). All others are full. A numpy array costs an engine's thread less than
    a list.

    On a device the pages are read in the order of the engine's current stream, or, ``at_once``, on a
    stream of the backend's own that waits for nothing. ``fold`` asks a backend that can for the sums too,
    ``order_free`` one that can for the order-free sums of the same pages.
    """

    pool: Pool
    layers: Sequence[int]
    pages: Sequence[int]
    last_rows: int | None = None
    at_once: bool = False
    fold: FoldSpec | None = None
    order_free: bool = False


@dataclass(frozen=True)
class PageDigests:
    """Page digests of ``layers`` x pages, row-major by layer, as little-endian u64 in ``data``.

    ``read_started`` and ``read_ended``: when the pages were read, in seconds of the host's wall clock, to
    within ``read_error`` seconds where a device's clock had to be translated. ``folded``: the sums, if the
    request asked for them and the backend makes them; else fold ``data``. ``order_free``: the
    order-free sums, packed like ``data``, or empty.
    """

    layers: tuple[int, ...]
    pages: int
    data: bytes
    read_started: float
    read_ended: float
    read_error: float = 0.0
    folded: Folded | None = None
    order_free: bytes = b""


class PendingDigest(Protocol):
    """A digest that was launched."""

    def ready(self) -> bool:
        """Whether :meth:`result` returns without waiting. Never blocks."""
        ...

    def result(self) -> PageDigests:
        """The digests; waits if they are not ready. Raises what the launch or the read met.

        :class:`ScratchFull` if there was no memory for it. Call it, or drop the object: either gives back
        what the digest holds.
        """
        ...


class DigestBackend(Protocol):
    """One way to compute page digests."""

    name: str

    def prepare(self, pool: Pool) -> None:
        """Make ready for requests on ``pool``, at attach: may take seconds, and wait for a device."""
        ...

    def launch(self, request: DigestRequest) -> PendingDigest:
        """Begin to digest. May be called on an engine's thread, so it must not wait for a device."""
        ...
