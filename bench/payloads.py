"""Reports as workers send them, encoded before any clock starts."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass

from pd_tracer_hooks import WIRE_VERSION
from pd_tracer_hooks.layout import DSA_INDEX_K, PageLayout, signature, signature_fields
from pd_tracer_hooks.u64s import U64s
from pd_tracer_hooks.wire import (
    ComponentDigest,
    Coverage,
    Observation,
    Report,
    Side,
    Stage,
    Worker,
    encode,
)

K = 4
LAYERS = list(range(61))
KV = PageLayout.plain(64, 1152, "bfloat16")


@dataclass(frozen=True)
class Shape:
    """What a report holds: ``small`` is about 0.5 kB, ``full`` has two components with their buckets."""

    name: str
    components: tuple[str, ...]
    pages: int
    buckets: bool


SMALL = Shape("small", ("index_k",), 40, buckets=False)
FULL = Shape("full", ("index_k", "kv"), 128, buckets=True)
SHAPES = {shape.name: shape for shape in (SMALL, FULL)}

_SIGNATURES = {
    "index_k": signature(signature_fields(component="index_k", layout=DSA_INDEX_K, k=K)),
    "kv": signature(signature_fields(component="kv", layout=KV, k=K)),
}


def _component(name: str, shape: Shape, rng: random.Random) -> ComponentDigest:
    count = min(64, shape.pages)
    sums = U64s.of(rng.getrandbits(64) for _ in range(3))
    cells = len(LAYERS)
    return ComponentDigest(
        name=name,
        signature=_SIGNATURES[name],
        pages=shape.pages,
        k=K,
        coverage=Coverage.full,
        layers=LAYERS,
        runs=[(0, shape.pages)],
        sums=sums,
        cells=[cells * min(K, shape.pages)] * 2 + [cells * shape.pages],
        buckets=U64s.of(rng.getrandbits(64) for _ in range(count)) if shape.buckets else U64s(),
    )


def batches(
    shape: Shape, *, rooms: int, batch: int, content_type: str, start: int = 0, seed: int = 7
) -> Iterator[bytes]:
    """Encoded reports: both sides of ``rooms`` rooms with random ids, ``batch`` observations a report.

    Each side's report of a block of rooms follows the other's, so rooms complete as they would under load.
    """
    rng = random.Random(f"{seed}:{start}")
    for block in range(start, start + rooms, batch):
        count = min(batch, start + rooms - block)
        names = [str(rng.getrandbits(63)) for _ in range(count)]
        parts = [tuple(_component(n, shape, rng) for n in shape.components) for _ in range(count)]
        for side, stage in ((Side.prefill, Stage.send), (Side.decode, Stage.receive)):
            worker = Worker(
                id=f"{side.value}-{block % 8}",
                boot=f"bench-{start}",
                deployment="bench",
                side=side,
                server=f"{side.value}-server-{block % 8}",
            )
            observations = [
                Observation(
                    room=name,
                    keys=[f"{int(name) & 0xFFFFFFFFFFFFFFFF:016x}"],
                    stage=stage,
                    seq=block + index,
                    at=1.7e9,
                    request=f"req-{name}",
                    tokens=shape.pages * 64,
                    components=list(components),
                )
                for index, (name, components) in enumerate(zip(names, parts, strict=True))
            ]
            report = Report(wire=WIRE_VERSION, worker=worker, batch=str(block), observations=observations)
            yield encode(report, content_type)
