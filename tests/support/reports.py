"""Reports for tests of the collector: real digests of small rooms, as workers of both sides post them."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from support.rooms import INDEX_K, KV

from pd_tracer_hooks import WIRE_VERSION, wire
from pd_tracer_hooks.wire import (
    ComponentDigest,
    Event,
    EventKind,
    Manifest,
    Observation,
    Report,
    Side,
    Stage,
    Worker,
)

KEY = "73bfee68b4452cf7"
PARTS = (KV.part(), INDEX_K.part())
#: index_k with one bit flipped in layer 2, page 1.
DAMAGED = (KV.part(), INDEX_K.part(damage=[(2, 1)]))


@dataclass
class Speaker:
    """One worker, which numbers its records."""

    worker: Worker
    seq: int = 0

    def report(self, *records: Observation | Event | Manifest, **other: Any) -> Report:
        """A batch of records."""
        return Report(
            wire=WIRE_VERSION,
            worker=self.worker,
            observations=[r for r in records if isinstance(r, Observation)],
            events=[r for r in records if isinstance(r, Event)],
            manifests=[r for r in records if isinstance(r, Manifest)],
            **other,
        )

    def look(
        self,
        room: str,
        stage: Stage,
        components: Iterable[ComponentDigest] = PARTS,
        keys: Sequence[str] = (KEY,),
        **other: Any,
    ) -> Observation:
        """An observation."""
        return Observation(
            room=room,
            keys=list(keys),
            stage=stage,
            components=list(components),
            **{"seq": self.next(), "at": time.time(), **other},
        )

    def event(self, room: str, kind: EventKind, keys: Sequence[str] = (KEY,), **other: Any) -> Event:
        """An event."""
        return Event(
            room=room, kind=kind, keys=list(keys), **{"seq": self.next(), "at": time.time(), **other}
        )

    def manifest(self, *components: wire.ManifestComponent) -> Manifest:
        """A manifest."""
        return Manifest(seq=self.next(), at=time.time(), components=list(components))

    def next(self) -> int:
        """The next record's number."""
        self.seq += 1
        return self.seq


def speaker(side: Side | str, name: str, **other: Any) -> Speaker:
    """A worker of the server ``name`` in upper case."""
    values = {
        "id": name,
        "boot": f"{name}-1",
        "deployment": "llama",
        "side": Side(side),
        "server": name.upper(),
        **other,
    }
    return Speaker(Worker(**values))


@dataclass
class Cluster:
    """One worker of each side."""

    prefill: Speaker = field(default_factory=lambda: speaker("prefill", "p0"))
    decode: Speaker = field(default_factory=lambda: speaker("decode", "d0"))

    def sent(self, room: str, **other: Any) -> Report:
        """What prefill reports of a room."""
        return self.prefill.report(self.prefill.look(room, Stage.send, **other))

    def received(self, room: str, **other: Any) -> Report:
        """What decode reports of a room."""
        return self.decode.report(self.decode.look(room, Stage.receive, **other))
