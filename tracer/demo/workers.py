"""The demo's workers as seen by the process that started them."""

from __future__ import annotations

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
)

DEPLOYMENT = "demo"


class Traffic:
    """What the workers have said so far."""

    def __init__(self) -> None:
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
                decode.tell(Peers(ports=self.ports))
        elif isinstance(message, Closed):
            self.closed.add(message.index)
        elif isinstance(message, Injected):
            self.aims[message.index] = message.aim
        elif isinstance(message, Finished):
            self.finished[child.name] = message


def start_workers(
    mix: Mix, geometry: Geometry, rooms: list[PlannedRoom], children: Children, collector: str
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
        child = children.start(server, ["-m", "tracer.demo.worker"], {"OMP_NUM_THREADS": "1"})
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
                head_slice="0-7 of 16" if server == PREFILL_HEAD_SLICE else "",
            )
        )
        workers.append(child)
    return workers
