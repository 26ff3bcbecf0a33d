"""The demo's workers as seen by the process that started them."""

from __future__ import annotations

import os
from pathlib import Path

import msgspec

from tracer.demo.children import Child, Children
from tracer.demo.faults import Aim
from tracer.demo.geometry import INDEX_K, KV, Geometry
from tracer.demo.messages import Closed, Finished, FromWorker, Injected, Peers, Ready, WorkerConfig
from tracer.demo.plan import (
    DECODE,
    PREFILL,
    PREFILL_HEAD_SLICE,
    PREFILL_WITHOUT_INDEX,
    Mix,
    PlannedRoom,
    WireTraits,
)
from tracer.demo.wire import DECODE_HOST, INNER, PREFILL_HOST, WireConfig

DEPLOYMENT = "demo"
LOOPBACK = "127.0.0.1"


class Traffic:
    """What the workers have said so far."""

    def __init__(self) -> None:
        #: Where prefill servers listen.
        self.prefill_host = LOOPBACK
        self.ports: dict[str, int] = {}
        self.closed: set[int] = set()
        self.aims: dict[int, Aim] = {}
        self.finished: dict[str, Finished] = {}
        self._ready: dict[str, Ready] = {}

    def hear(self, child: Child, message: FromWorker, workers: list[Child]) -> None:
        """Take in one message; when all workers are ready, introduce them to each other."""
        if isinstance(message, Ready):
            self._ready[child.name] = message
            if len(self._ready) == len(workers):
                self.ports = {name: ready.port for name, ready in self._ready.items() if ready.port}
                decode = next(worker for worker in workers if worker.name == DECODE)
                decode.tell(Peers(ports=self.ports, host=self.prefill_host))
        elif isinstance(message, Closed):
            self.closed.add(message.index)
        elif isinstance(message, Injected):
            self.aims[message.index] = message.aim
        elif isinstance(message, Finished):
            self.finished[child.name] = message


class Wire:
    """The wire that workers are put at the ends of."""

    def __init__(
        self, mix: Mix, rooms: list[PlannedRoom], children: Children, port: int, *, log: Path
    ) -> None:
        """Lay it, and wait until it carries. ``port``: the collector's. ``log``: of what is flipped."""
        self.namespaces = {"prefill": f"pdt{os.getpid()}p", "decode": f"pdt{os.getpid()}d"}
        self.hosts = {"prefill": PREFILL_HOST, "decode": DECODE_HOST}
        self._log = log
        traits = mix.wire or WireTraits()
        child = children.start("wire", ["-m", "tracer.demo.wire"])
        child.tell(
            WireConfig(
                **self.namespaces,
                collector_port=port,
                delay_ms=traits.delay_ms,
                flip_mib=traits.flip_mib,
                seed=mix.seed,
                intact=[room.index for room in rooms if room.fault is None],
                log=str(log),
            )
        )
        child.read()

    def flips(self) -> list[Injected]:
        """What was flipped so far."""
        lines = self._log.read_bytes().splitlines() if self._log.exists() else []
        return [msgspec.json.decode(line, type=Injected) for line in lines]


def start_workers(
    mix: Mix,
    geometry: Geometry,
    rooms: list[PlannedRoom],
    children: Children,
    collector: str,
    *,
    wire: Wire | None = None,
) -> list[Child]:
    """Start a prefill and a decode worker, and the odd prefill workers that a room wants."""
    both = (KV, INDEX_K)
    wanted: list[tuple[str, str, tuple[str, ...]]] = [(PREFILL, "prefill", both), (DECODE, "decode", both)]
    odd = {PREFILL_WITHOUT_INDEX: (KV,), PREFILL_HEAD_SLICE: both}
    for server, held in odd.items():
        if any(room.prefill == server for room in rooms):
            wanted.append((server, "prefill", held))
    workers = []
    for number, (server, side, moved) in enumerate(wanted):
        # One thread each: three workers and a collector share few cores.
        environment = {"OMP_NUM_THREADS": "1"}
        if wire is not None:
            environment["UCX_NET_DEVICES"] = INNER
        child = children.start(
            server,
            ["-m", "tracer.demo.worker"],
            environment,
            namespace="" if wire is None else wire.namespaces[side],
        )
        child.tell(
            WorkerConfig(
                server=server,
                side=side,
                collector=collector,
                deployment=DEPLOYMENT,
                geometry=geometry,
                rooms=[room for room in rooms if side == "decode" or room.prefill == server],
                concurrency=mix.concurrency,
                # Different on each worker: neither pages nor what was in the pools before agree.
                seed=mix.seed * len(wanted) + number,
                run=f"seed={mix.seed}",
                listed=moved,
                stages=mix.stages,
                engine=mix.engine,
                host=LOOPBACK if wire is None else wire.hosts[side],
                tagged=wire is not None,
                head_slice="0-7 of 16" if server == PREFILL_HEAD_SLICE else "",
            )
        )
        workers.append(child)
    return workers
