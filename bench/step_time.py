"""What tracing costs a decode loop: hooks off, attached but dormant, at 1 % and at 100 % of the rooms.

    python bench/step_time.py [--rounds 24] [--steps 160]

A step replays a captured graph of matrix products (decode-like: weights are read, little is computed) and
waits for the step before it, as an overlapped scheduler does. Every eighth step a room of 8k tokens arrives,
as for a batch of 64 requests of some 500 tokens each; then all is repeated with a room every step, more
than any worker gets. If a room is traced, its KV and index-K pages are digested at once on the hooks' own
stream while the step runs, and a thread collects the results. A round runs all modes in random order;
slowdowns are taken within a round, against the run without hooks, and given with the 95 % interval of their
mean.
"""

from __future__ import annotations

import argparse
import math
import queue
import random
import statistics
import threading
import time
from itertools import count

import numpy as np
import torch
from gpu_rooms import LAYOUTS, Rooms

from pd_tracer_hooks.digest.backend import DigestRequest, FoldSpec, PendingDigest
from pd_tracer_hooks.digest.gpu.backend import GpuBackend
from pd_tracer_hooks.keys import sampled
from pd_tracer_hooks.ownership import PageOwners

PAGES = 128
#: Student's t for 95 %, two-sided, by degrees of freedom from 19 on.
T95 = {19: 2.093, 23: 2.069, 29: 2.045, 39: 2.023}


class Hooks:
    """What an integration does when a room has arrived."""

    def __init__(self, backend: GpuBackend) -> None:
        self.backend = backend
        self.pools = [Rooms(LAYOUTS["KV bf16"]), Rooms(LAYOUTS["index-K"])]
        for held in self.pools:
            backend.prepare(held.pool)
        self.pages = [held.page_lists(PAGES)[:40] for held in self.pools]
        self.layers = tuple(range(self.pools[0].layers))
        self.spec = FoldSpec(np.arange(PAGES), PAGES, 2, full=True)
        self.owners = PageOwners()
        self.under_way: queue.SimpleQueue[PendingDigest] = queue.SimpleQueue()
        self.digested = 0
        self.read_seconds: list[float] = []
        threading.Thread(target=self._collect, daemon=True).start()

    def received(self, number: int, room: str, rate: float) -> None:
        """On the engine's thread."""
        if rate <= 0 or not sampled(room, rate):
            return
        for held, lists in zip(self.pools, self.pages, strict=True):
            pages = lists[number % len(lists)]
            self.owners.claim(pages)
            request = DigestRequest(held.pool, self.layers, pages, 9, at_once=True, fold=self.spec)
            self.under_way.put(self.backend.launch(request))

    def _collect(self) -> None:
        while True:
            pending = self.under_way.get()
            while not pending.ready():
                time.sleep(0.001)
            found = pending.result()
            self.digested += 1
            self.read_seconds.append(found.read_ended - found.read_started)


def decode_graph(layers: int = 24, batch: int = 64, width: int = 6144) -> torch.cuda.CUDAGraph:
    weights = [
        torch.randn(width, width, device="cuda", dtype=torch.bfloat16) / math.sqrt(width)
        for _ in range(layers)
    ]
    state = torch.randn(batch, width, device="cuda", dtype=torch.bfloat16)

    def step() -> None:
        hidden = state
        for _ in range(4):
            for weight in weights:
                hidden = torch.nn.functional.relu(hidden @ weight)
        state.copy_(hidden + 0.01)

    step()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        step()
    graph.weights = weights
    return graph


rooms = count()


def run(graph: torch.cuda.CUDAGraph, steps: int, every: int, hooks: Hooks | None, rate: float) -> float:
    """Seconds a step."""
    before: torch.cuda.Event | None = None
    torch.cuda.synchronize()
    began = time.perf_counter()
    for _ in range(steps):
        number = next(rooms)
        graph.replay()
        event = torch.cuda.Event()
        event.record()
        if hooks is not None and number % every == 0:
            hooks.received(number, str(number), rate)
        if before is not None:
            before.synchronize()
        before = event
    torch.cuda.synchronize()
    return (time.perf_counter() - began) / steps


def interval(values: list[float]) -> tuple[float, float]:
    """Mean, and half the width of its 95 % interval."""
    freedom = len(values) - 1
    t = T95[max(known for known in T95 if known <= freedom)]
    return statistics.mean(values), t * statistics.stdev(values) / math.sqrt(len(values))


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=24)
    parser.add_argument("--steps", type=int, default=160)
    chosen = parser.parse_args()
    if not torch.cuda.is_available():
        raise SystemExit("bench/step_time.py needs a CUDA device")
    if chosen.rounds < 20:
        raise SystemExit("--rounds: at least 20, or the interval says little")
    graph = decode_graph()
    run(graph, chosen.steps, 1, None, 0)
    hooks = Hooks(GpuBackend())
    alone = digest_seconds(hooks)
    for every, mark in ((8, ""), (1, "*")):
        compare(graph, hooks, chosen.rounds, chosen.steps, every=every, alone=alone, mark=mark)


def compare(
    graph: torch.cuda.CUDAGraph, hooks: Hooks, rounds: int, steps: int, *, every: int, alone: float, mark: str
) -> None:
    modes = {"off": (None, 0.0), "dormant": (hooks, 0.0), "1 %": (hooks, 0.01), "100 %": (hooks, 1.0)}
    for mode in modes.values():
        run(graph, 20, every, *mode)
    times: dict[str, list[float]] = {name: [] for name in modes}
    order, before = list(modes), hooks.digested
    for _ in range(rounds):
        random.shuffle(order)
        for name in order:
            times[name].append(run(graph, steps, every, *modes[name]))
    step = statistics.median(times["off"])
    share = 100 * alone / step / every
    print(
        f"a room every {every} steps of {step * 1e3:.3f} ms: {rounds} rounds of {steps} steps a mode, "
        f"{hooks.digested - before} digests"
    )
    print(f"  digests of one room: {alone * 1e6:.0f} us of GPU time = {share:.2f} % of the time")
    slowdowns = {}
    for name in list(modes)[1:]:
        ratios = [100 * (mine / base - 1) for mine, base in zip(times[name], times["off"], strict=True)]
        mean, half = slowdowns[name] = interval(ratios)
        print(f"  {name:8} {mean:+.3f} % (95 %: {mean - half:+.3f} to {mean + half:+.3f})")
    mean, half = slowdowns["1 %"]
    low, high = mean - half, mean + half
    verdict(f"6a{mark}", low <= 0 <= high < 0.5, f"1 %: {low:+.3f} to {high:+.3f} %; to hold 0, below 0.5")
    mean, half = slowdowns["100 %"]
    verdict(
        f"6b{mark}", mean <= share + 1.5, f"100 %: {mean:+.2f} +- {half:.2f} %; at most {share:.2f} + 1.5"
    )


def digest_seconds(hooks: Hooks) -> float:
    """GPU time of one room's digests with the GPU to themselves, by its own timer."""
    torch.cuda.synchronize()
    hooks.read_seconds.clear()
    for number in range(30):
        hooks.received(number, "room", 1.0)
        while len(hooks.read_seconds) < 2 * (number + 1):
            time.sleep(0.001)
    return statistics.median(hooks.read_seconds[::2]) + statistics.median(hooks.read_seconds[1::2])


def verdict(number: str, met: bool, figure: str) -> None:
    print(f"bar {number:>3}  {'met    ' if met else 'NOT MET'}  {figure}")


if __name__ == "__main__":
    main()
