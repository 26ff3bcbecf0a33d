"""A few rooms on two deployments, for tests of what reads them."""

from __future__ import annotations

from dataclasses import dataclass, field

from support.reports import DAMAGED, PARTS, Cluster, speaker
from support.rooms import INDEX_K, KV
from support.serving import Server

from pd_tracer_hooks.wire import EventKind, Heartbeat


def _llama() -> Cluster:
    return Cluster(
        speaker("prefill", "p0", node="n0", run="kv=bf16,graph=on", aliases=["10.0.0.1:8998"]),
        speaker("decode", "d0", node="n1", run="kv=bf16,graph=on", engine="sglang", engine_version="0.5.6"),
    )


def _qwen() -> Cluster:
    return Cluster(
        speaker("prefill", "p9", node="n0", deployment="qwen"),
        speaker("decode", "d9", node="n9", deployment="qwen"),
    )


@dataclass
class Scene:
    """``llama``: room ``good`` matches, ``bad`` mismatches in index_k, ``waiting`` was only sent.

    ``qwen`` has a ``good`` of its own.
    """

    server: Server
    llama: Cluster = field(default_factory=_llama)
    qwen: Cluster = field(default_factory=_qwen)

    def play(self) -> Scene:
        """Post everything."""
        llama, qwen = self.llama, self.qwen
        beat = Heartbeat(uptime_s=12.5, queued=3)
        self.server.tell(
            llama.prefill.report(
                llama.prefill.manifest(KV.in_manifest(), INDEX_K.in_manifest()), heartbeat=beat
            ),
            llama.decode.report(
                llama.decode.manifest(KV.in_manifest(), INDEX_K.in_manifest()), drops={"queue_full": 2}
            ),
            qwen.sent("good"),
            qwen.received("good"),
        )
        for room in ("good", "bad"):
            parts = DAMAGED if room == "bad" else PARTS
            self.server.tell(
                llama.decode.report(
                    llama.decode.event(room, EventKind.opened, request=f"d-{room}", peer="10.0.0.1:8998")
                ),
                llama.sent(room, request=f"p-{room}", trace=f"t-{room}", tokens=30),
                llama.received(room, request=f"d-{room}", components=parts),
            )
        self.server.tell(llama.sent("waiting", keys=["00000000000000ff"]))
        return self
