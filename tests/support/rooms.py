"""Rooms for tests: what both sides would report of real bytes, entry by entry.

Every digest is computed by the definition over (small) pages, so that a test which expects a match or a
mismatch rests on bytes and not on numbers made up to agree.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from pd_tracer_hooks.digest.definition import (
    bucket_edges,
    cell_sum,
    head_pages,
    order_free_digest,
    page_digest,
    row_sum,
    tail_pages,
)
from pd_tracer_hooks.layout import PageLayout, signature, signature_fields
from pd_tracer_hooks.u64s import U64s
from pd_tracer_hooks.wire import (
    ComponentDigest,
    Coverage,
    Detail,
    Event,
    EventKind,
    Manifest,
    ManifestComponent,
    Observation,
    Side,
    Stage,
)
from tracer.join.model import AnyEntry, Entry, Policy, WorkerRef

Cell = tuple[int, int]
Run = tuple[int, int]

KEY, KEY2, KEY3 = "000000000000000a", "000000000000000b", "000000000000000c"

P0 = WorkerRef("p0", "boot-p0", Side.prefill, "P")
P1 = WorkerRef("p1", "boot-p1", Side.prefill, "P")
D0 = WorkerRef("d0", "boot-d0", Side.decode, "D")
D1 = WorkerRef("d1", "boot-d1", Side.decode, "D")

#: The defaults, written out so that tests can reckon with them.
POLICY = Policy(send_deadline_s=180.0, open_deadline_s=600.0)

PAGE_LAYOUT = PageLayout.plain(rows=4, row_bytes=8)


#: Has a meaning of its own. Any other name stands for a prompt's bytes, which differ page by page.
ZEROS = "zeros"


def page_bytes(layer: int, page: int, content: str) -> bytes:
    """What a page holds.

    ``zeros``: zeros. ``reversed X``: the words of X in reverse. ``half X``: zeros from the middle on.
    ``X@7``: what X has in page 7.
    """
    if content == ZEROS:
        return bytes(PAGE_LAYOUT.page_bytes)
    how, _, rest = content.partition(" ")
    if how == "reversed":
        data = page_bytes(layer, page, rest)
        return b"".join(data[i : i + 8] for i in reversed(range(0, len(data), 8)))
    if how == "half":
        data = page_bytes(layer, page, rest)
        return data[: len(data) // 2] + bytes(len(data) - len(data) // 2)
    name, _, other = content.partition("@")
    text = f"{name}:{layer}:{other or page}"
    return text.encode().ljust(PAGE_LAYOUT.page_bytes, b".")


@lru_cache(maxsize=65536)
def _page(layer: int, page: int, content: str, flipped: bool) -> int:
    data = bytearray(page_bytes(layer, page, content))
    if flipped:
        data[-1] ^= 1
    return page_digest(bytes(data))


@dataclass(frozen=True)
class Component:
    """One component of a transfer, and how it is reported.

    ``content`` names what its pages hold; a cell in ``damage`` has one bit flipped.
    """

    name: str = "kv"
    layers: tuple[int, ...] = (0, 1, 2)
    pages: int = 8
    k: int = 2
    coverage: Coverage = Coverage.full
    layer_sums: bool = True
    buckets: bool = True
    content: str = "prompt"
    head_slice: str = ""

    @property
    def fields(self) -> dict[str, str]:
        """What its signature is made of."""
        return signature_fields(component=self.name, layout=PAGE_LAYOUT, k=self.k, head_slice=self.head_slice)

    @property
    def signature(self) -> str:
        """Its signature."""
        return signature(self.fields)

    def part(
        self,
        runs: Sequence[Run] | None = None,
        layers: Sequence[int] | None = None,
        damage: Collection[Cell] = (),
        content: str | None = None,
        holds: Mapping[Cell, str] | None = None,
        **other: Any,
    ) -> ComponentDigest:
        """What one look at ``runs`` (default: all pages) of ``layers`` (default: all) reports.

        ``holds``: what single cells hold, if it is not ``content``.
        """
        held = holds or {}
        layers = list(self.layers if layers is None else layers)
        runs = [(0, self.pages)] if runs is None else list(runs)
        what = self.content if content is None else content
        seen = [page for first, count in runs for page in range(first, first + count)]
        head, tail = head_pages(self.pages, self.k), tail_pages(self.pages, self.k)
        full = self.coverage is Coverage.full
        if not full:
            seen = [page for page in seen if page in head or page in tail]
        digests = {
            (la, p): _page(la, p, held.get((la, p), what), (la, p) in damage) for la in layers for p in seen
        }
        regions: list[Collection[int]] = [head, tail, range(self.pages) if full else ()]

        def inside(pages: Collection[int]) -> list[tuple[int, int, int]]:
            return [(la, p, d) for (la, p), d in digests.items() if p in pages]

        def rows(layer: int, pages: Collection[int]) -> int:
            return row_sum((p, digests[layer, p]) for p in seen if p in pages)

        edges = bucket_edges(self.pages)
        buckets = [range(edges[b], edges[b + 1]) for b in range(len(edges) - 1)]
        values: dict[str, Any] = {
            "name": self.name,
            "signature": self.signature,
            "pages": self.pages,
            "k": self.k,
            "coverage": self.coverage,
            "layers": layers,
            "runs": _runs(seen),
            "last": self.pages == 0 or self.pages - 1 in seen,
            "sums": U64s.of(cell_sum(inside(region)) for region in regions),
            "cells": [len(inside(region)) for region in regions],
            "buckets": U64s.of(cell_sum(inside(b)) for b in buckets) if full and self.buckets else U64s(),
            "layer_sums": U64s.of(rows(la, region) for la in layers for region in regions)
            if self.layer_sums
            else U64s(),
        }
        return ComponentDigest(**{**values, **other})

    def detail(
        self,
        stage: Stage,
        runs: Sequence[Run] | None = None,
        damage: Collection[Cell] = (),
        content: str | None = None,
        holds: Mapping[Cell, str] | None = None,
        *,
        order_free: bool = False,
        **other: Any,
    ) -> dict[str, Any]:
        """The fields of a :class:`Detail` of what :meth:`part` reports of the same arguments."""
        part = self.part(runs, None, damage, content, holds)
        held = holds or {}
        what = self.content if content is None else content
        seen = [(la, p) for la in part.layers for first, n in part.runs for p in range(first, first + n)]
        words = [page_bytes(la, p, held.get((la, p), what)) for la, p in seen]
        return {
            "stage": stage,
            "component": self.name,
            "layers": part.layers,
            "runs": part.runs,
            "digests": U64s.of(_page(la, p, held.get((la, p), what), (la, p) in damage) for la, p in seen),
            "order_free": U64s.of(order_free_digest(data) for data in words) if order_free else U64s(),
            **other,
        }

    def in_manifest(self, *, moved: bool = True, layers: Iterable[int] | None = None) -> ManifestComponent:
        """What a worker's manifest says of it."""
        return ManifestComponent(
            name=self.name,
            signature=self.signature,
            fields=self.fields,
            layers=list(self.layers if layers is None else layers),
            moved=moved,
        )


def _runs(pages: Iterable[int]) -> list[Run]:
    runs: list[Run] = []
    for page in sorted(pages):
        if runs and sum(runs[-1]) == page:
            runs[-1] = (runs[-1][0], runs[-1][1] + 1)
        else:
            runs.append((page, 1))
    return runs


KV = Component("kv")
INDEX_K = Component("index_k", layers=(0, 2))


@dataclass
class RoomBuilder:
    """The entries of one room, in the order in which the collector receives them, a second apart."""

    room: str = "4711"
    now: float = 1000.0
    entries: list[AnyEntry] = field(default_factory=list)
    manifests: dict[tuple[str, str], Manifest] = field(default_factory=dict)
    _seq: Counter[tuple[str, str]] = field(default_factory=Counter)

    def at(self, seconds: float) -> RoomBuilder:
        """Let time pass until ``seconds`` after the start."""
        self.now = 1000.0 + seconds
        return self

    def look(
        self,
        stage: Stage,
        *components: ComponentDigest,
        worker: WorkerRef,
        keys: Sequence[str] = (KEY,),
        **other: Any,
    ) -> RoomBuilder:
        """An observation."""
        record = Observation(
            room=self.room,
            keys=list(keys),
            stage=stage,
            components=list(components),
            **{"seq": self._next(worker), "at": self.now, **other},
        )
        return self.add(worker, record)

    def send(self, *components: ComponentDigest, worker: WorkerRef = P0, **other: Any) -> RoomBuilder:
        """Prefill's ``send``."""
        return self.look(Stage.send, *components, worker=worker, **other)

    def receive(self, *components: ComponentDigest, worker: WorkerRef = D0, **other: Any) -> RoomBuilder:
        """Decode's ``receive``."""
        return self.look(Stage.receive, *components, worker=worker, **other)

    def event(
        self, kind: EventKind | str, worker: WorkerRef, keys: Sequence[str] = (KEY,), **other: Any
    ) -> RoomBuilder:
        """An event."""
        record = Event(
            kind=EventKind(kind),
            room=self.room,
            keys=list(keys),
            **{"seq": self._next(worker), "at": self.now, **other},
        )
        return self.add(worker, record)

    def opened(self, worker: WorkerRef = D0, keys: Sequence[str] = (KEY,), **other: Any) -> RoomBuilder:
        """Decode's ``opened``."""
        return self.event(EventKind.opened, worker, keys, **other)

    def detail(
        self, worker: WorkerRef, fields: Mapping[str, Any], keys: Sequence[str] = (KEY,), **other: Any
    ) -> RoomBuilder:
        """Page digests that were asked for; ``fields`` are :meth:`Component.detail`'s."""
        record = Detail(
            room=self.room,
            keys=list(keys),
            **{"seq": self._next(worker), "at": self.now, **fields, **other},
        )
        return self.add(worker, record)

    def add(self, worker: WorkerRef, record: Observation | Event | Detail) -> RoomBuilder:
        """Any record, received now."""
        self.entries.append(Entry(worker, self.now, record))
        self.now += 1.0
        return self

    def manifest(self, worker: WorkerRef, *components: ManifestComponent) -> RoomBuilder:
        """A worker's manifest."""
        self.manifests[worker.id, worker.boot] = Manifest(seq=0, at=self.now, components=list(components))
        return self

    def _next(self, worker: WorkerRef) -> int:
        self._seq[worker.id, worker.boot] += 1
        return self._seq[worker.id, worker.boot]
