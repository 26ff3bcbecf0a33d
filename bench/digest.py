"""The digest on a GPU against its bars, everything measured in one run: cold pages, medians.

    python bench/digest.py [--out DIR] [--quick]
    python bench/digest.py --sweep          # times of other tunings of the kernel

Prints each bar with its figure, met or not. ``--out`` keeps the figures (digest.json) and the plot
(digest.png). Bar 6, the step time, is bench/step_time.py's. SGLang's kernel is measured where the package
can be imported.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor, wait
from itertools import product
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
import torch
from gpu_rivals import adler32, adler32_us, ceilings_gbs, clone_and_compare_us, hash_tensor_us
from gpu_rooms import LAYOUTS, ROOMS, Rooms, captured, each_layout, gpu_ms, median_us

from pd_tracer_hooks.digest.backend import DigestRequest, FoldSpec, Pool
from pd_tracer_hooks.digest.cpu import CpuBackend
from pd_tracer_hooks.digest.gpu.backend import GpuBackend
from pd_tracer_hooks.digest.gpu.launch import Kernel, compile_digest
from pd_tracer_hooks.digest.gpu.plan import FEW, MANY, SMALL, Geometry, Tuning
from pd_tracer_hooks.digest.pages import page_digest
from pd_tracer_hooks.layout import DSA_INDEX_K, PageLayout

ENDS = 2
#: Other ways to cut the work.
TUNINGS = [
    SMALL,
    FEW,
    MANY,
    Tuning(512, 1),
    Tuning(1024, 1),
    Tuning(1024, 4),
    Tuning(2048, 4),
    Tuning(2048, 8),
]
figures: dict[str, Any] = {"rooms": [], "bars": []}


def bar(number: str, what: str, figure: str, met: bool) -> None:
    figures["bars"].append({"bar": number, "what": what, "figure": figure, "met": met})


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path)
    parser.add_argument("--sweep", action="store_true")
    parser.add_argument("--quick", action="store_true", help="without the rivals")
    chosen = parser.parse_args()
    if not torch.cuda.is_available():
        raise SystemExit("bench/digest.py needs a CUDA device; the CPU's path is timed by it as well, there")
    if chosen.sweep:
        sweep()
        return
    backend = GpuBackend()
    figures["device"] = f"{torch.cuda.get_device_name()}, torch {torch.__version__}"
    print(figures["device"], time.strftime("%Y-%m-%d"))
    vectors(backend)
    rooms(None if chosen.quick else adler32(), chosen.quick)
    host_cost(backend)
    canary(backend)
    cpu_path()
    print("\nbars")
    for each in figures["bars"]:
        print(
            f"  {each['bar']:>3}  {'met    ' if each['met'] else 'NOT MET'}  {each['what']}: {each['figure']}"
        )
    if chosen.out:
        chosen.out.mkdir(parents=True, exist_ok=True)
        (chosen.out / "digest.json").write_text(json.dumps(figures, indent=1))
        from plot import plot_rooms  # noqa: PLC0415 - needs matplotlib

        plot_rooms(figures, chosen.out / "digest.png")


def vectors(backend: GpuBackend) -> None:
    """Two known digests, for a run that stands alone: tests/gpu has them all."""
    page = torch.arange(8448, device="cuda").bitwise_and(255).to(torch.uint8)
    pool = Pool("kv", DSA_INDEX_K, {0: page})
    backend.prepare(pool)
    found = [
        backend.launch(DigestRequest(pool, (0,), [0], rows)).result().data[::-1].hex() for rows in (64, 7)
    ]
    met = found == ["6c0b879a8adfa44d", "abb5597e8ee3688d"]
    bar("1", "vectors bit for bit (all of them in tests/gpu)", " ".join(found), met)


def rooms(adler: Any, quick: bool) -> None:
    reading, copying = ceilings_gbs()
    figures["sum_gbs"], figures["copy_gbs"] = reading, copying
    print(f"ceilings: fp32 torch.sum {reading:.0f} GB/s, copy {copying:.0f} GB/s (read and written)\n")
    print(
        f"{'':14}{'room':>6}{'MB':>8}{'SM64 us':>10}{'GB/s':>7}{'plain-sum':>11}{'ratio':>7}"
        f"{'Adler-32':>10}{'hash_t.':>9}{'clone+cmp':>11}"
    )
    for name, each in each_layout():
        plain = [each.kernel(tuning, mix=False) for tuning in (SMALL, FEW, MANY)]
        for room, pages in ROOMS.items():
            size = each.room_bytes(pages)
            # Interleaved, so that all see the same clocks. The limit is the best plain sum of any tuning.
            rounds = [
                [median_us(*each.launches(kernel, pages), 9) for kernel in (None, *plain)] for _ in range(3)
            ]
            us, *limits = (statistics.median(kind) for kind in zip(*rounds, strict=True))
            plain_us = min(limits)
            rivals: list[float | None] = [None, None, None]
            if not quick and room != "128k":
                rivals[0] = adler32_us(adler, each, pages) if adler is not None else None
                rivals[1] = hash_tensor_us(each, pages)
                rivals[2] = clone_and_compare_us(each, pages)
            row = {
                "layout": name,
                "page_bytes": each.layout.page_bytes,
                "room": room,
                "bytes": size,
                "us": us,
                "plain_us": plain_us,
                "adler_us": rivals[0],
                "hash_tensor_us": rivals[1],
                "clone_us": rivals[2],
            }
            figures["rooms"].append(row)
            shown = "".join(
                f"{value:{width}.0f}" if value is not None else f"{'-':>{width}}"
                for value, width in zip(rivals, (10, 9, 11), strict=True)
            )
            print(
                f"{name:14}{room:>6}{size / 1e6:8.0f}{us:10.1f}{size / us / 1e3:7.0f}{plain_us:11.1f}"
                f"{us / plain_us:7.2f}{shown}"
            )
        for k in (ENDS, 4):
            us = median_us(*each.launches(None, 1024, ends=k))
            figures["rooms"].append({"layout": name, "room": f"ends k={k}", "us": us})
            print(
                f"{name:14}{'ends':>6}{each.room_bytes(2 * k) / 1e6:8.0f}{us:10.1f}   head and tail, k = {k}"
            )
    _room_bars()


def _room_bars() -> None:
    full = [row for row in figures["rooms"] if "plain_us" in row]

    def worst(chosen: list[dict[str, Any]]) -> float:
        return max(row["us"] / row["plain_us"] for row in chosen)

    large = worst([row for row in full if row["bytes"] >= 0.5e9])
    bar(
        "2a",
        "rooms of 0.5 GB and more, cold: at most 1.10 x plain-sum",
        f"{large:.3f} x at worst",
        large <= 1.10,
    )
    medium = worst([row for row in full if row["room"] == "8k"])
    bar("2b", "8k rooms: at most 1.25 x plain-sum", f"{medium:.3f} x at worst", medium <= 1.25)
    small = {row["layout"]: row["us"] for row in full if row["room"] == "1k"}
    index = small["index-K"]
    bar("2c", "1k room of index-K: at most 10 us", f"{index:.1f} us", index <= 10)
    kv = max(us for name, us in small.items() if name.startswith("KV"))
    bar("2d", "1k room of KV: at most 30 us", f"{kv:.1f} us", kv <= 30)
    ends = max(row["us"] for row in figures["rooms"] if row["room"] == f"ends k={ENDS}")
    bar("2e", f"head and tail (k = {ENDS}): at most 12 us", f"{ends:.1f} us at worst", ends <= 12)


def host_us(
    call: Callable[[], object], finish: Callable[[], None], calls: int = 40, rounds: int = 12
) -> float:
    """Median host microseconds of a call; the device catches up, unmeasured, after each round."""
    times = []
    for number in range(rounds + 1):
        finish()
        for _ in range(calls):
            began = time.perf_counter_ns()
            call()
            times.append(time.perf_counter_ns() - began)
        if not number:
            times.clear()
    finish()
    return statistics.median(times) / 1000


def host_cost(backend: GpuBackend) -> None:
    held = Rooms(DSA_INDEX_K, held=2048)
    backend.prepare(held.pool)
    layers = tuple(range(held.layers))
    small = torch.zeros(16, device="cuda")
    launches = []
    launch = Kernel.launch
    Kernel.launch = lambda *a, **k: (launches.append(1), launch(*a, **k))[1]  # type: ignore[method-assign]
    backend.launch(
        DigestRequest(held.pool, layers, range(128), fold=FoldSpec(range(128), 128, 2, True))
    ).result()
    Kernel.launch = launch  # type: ignore[method-assign]
    bar(
        "3",
        "one launch per call and layout group",
        f"{len(launches)} for {len(layers)} layers",
        len(launches) == 1,
    )
    pending: list[Any] = []

    def collect() -> None:
        for each in pending:
            each.result()
        pending.clear()
        torch.cuda.synchronize()

    print("\nhost cost on the engine's thread (table up, launch, result down, event)")
    worst, ratios, figures["host"] = 0.0, [], []
    for pages in (16, 128, 1024):
        spec = FoldSpec(np.arange(pages), pages, ENDS, True)
        array = np.arange(pages, dtype=np.int32)
        for kind, given in (("numpy", array), ("list", array.tolist())):
            zero = host_us(small.zero_, torch.cuda.synchronize)
            request = DigestRequest(held.pool, layers, given, 9, fold=spec)
            us = host_us(lambda request=request: pending.append(backend.launch(request)), collect)
            once = DigestRequest(held.pool, layers, given, 9, at_once=True, fold=spec)
            own = host_us(lambda once=once: pending.append(backend.launch(once)), collect)
            print(
                f"  {pages:5} pages as {kind:6} {us:6.1f} us = {us / zero:4.1f} x zero_() ({zero:.2f} us); "
                f"on our own stream {own:.1f} us"
            )
            figures["host"].append({"pages": pages, "kind": kind, "us": us, "zero_us": zero, "own_us": own})
            worst = max(worst, us, own)
            ratios.append(max(us, own) / zero)
    met = max(ratios) <= 12 and worst <= 75
    bar(
        "4", "host cost: at most 12 x zero_() and 75 us", f"{max(ratios):.1f} x, {worst:.1f} us at worst", met
    )
    bar("4s", "stretch: at most 5 x", f"{min(ratios):.1f} to {max(ratios):.1f} x", max(ratios) <= 5)


def canary(backend: GpuBackend) -> None:
    """Two digests around a body inside a graph, compared there; against a copy that is compared."""
    print("\ncanary in a graph (digest, body, digest, compare), microseconds more a replay")
    cases = [
        ("3.2 MB", DSA_INDEX_K, 379),
        ("3.2 MB", LAYOUTS["KV bf16"], 43),
        ("512 MB", LAYOUTS["KV bf16"], 7282),
    ]
    outcomes = []
    for name, layout, pages in cases:
        held = Rooms(layout, layers=3, held=pages)
        body = torch.randn(2048, 2048, device="cuda", dtype=torch.bfloat16)
        out = torch.empty_like(body)
        resident = [backend.resident(held.pool, (0, 1, 2), pages) for _ in range(2)]
        for each in resident:
            each.set_pages(range(pages))
        flags = torch.empty(3, pages, dtype=torch.bool, device="cuda")
        buffers = list(held.pool.buffers.values())
        kept = [torch.empty_like(buffer) for buffer in buffers]
        torch.cuda.synchronize()

        def work(
            before: Callable[[], object], after: Callable[[], object], body=body, out=out
        ) -> Callable[[], None]:
            def run() -> None:
                before()
                for _ in range(4):
                    torch.mm(body, body, out=out)
                after()

            return run

        def digest_after(resident=resident, flags=flags) -> None:
            resident[1].launch()
            torch.ne(resident[0].digests, resident[1].digests, out=flags)

        def copy(kept=kept, buffers=buffers) -> None:
            for target, source in zip(kept, buffers, strict=True):
                target.copy_(source)

        def compare(kept=kept, buffers=buffers) -> None:
            for target, source in zip(kept, buffers, strict=True):
                target.ne(source).any()

        graphs = [
            captured(work(lambda: None, lambda: None)),
            captured(work(resident[0].launch, digest_after)),
            captured(work(copy, compare)),
        ]
        times: list[list[float]] = [[], [], []]
        for _ in range(7):
            for kind, graph in zip(times, graphs, strict=True):
                # Many replays at once: launching one costs the host more than it runs.
                many = 100 if pages < 1000 else 5
                kind.append(
                    statistics.median(
                        gpu_ms(
                            lambda graph=graph, many=many: [graph.replay() for _ in range(many)] and None, 3
                        )
                    )
                    * 1000
                    / many
                )
        base, digest, clone = (statistics.median(kind) for kind in times)
        assert not flags.any()
        print(
            f"  3 layers x {name} ({layout.page_bytes} B pages): +{digest - base:.1f} us; "
            f"clone-and-compare +{clone - base:.1f} us and {3 * buffers[0].numel() * 8 / 1e6:.0f} MB"
        )
        outcomes.append((digest - base, clone - base))
        for each in resident:
            each.close()
        del held, buffers, kept, graphs
        torch.cuda.empty_cache()
    (small, small_clone), (wide, wide_clone), (large, large_clone) = outcomes
    figures["canary"] = outcomes
    bar(
        "5a",
        "canary, 3 x 3.2 MB: at most +18 us a replay and half of clone-and-compare",
        f"+{small:.1f} us, {small / small_clone:.2f} of it (pages of 8448 B); "
        f"+{wide:.1f} us, {wide / wide_clone:.2f} (73728 B)",
        max(small, wide) <= 18 and small <= small_clone / 2 and wide <= wide_clone / 2,
    )
    bar(
        "5b",
        "canary, 3 x 512 MB: at most +800 us",
        f"+{large:.0f} us (clone {large_clone:.0f})",
        large <= 800,
    )


def cpu_path() -> None:
    print("\nthe CPU's path (numpy), GB/s")
    slowest = float("inf")
    for name, layout in LAYOUTS.items():
        pages = -(-32_000_000 // layout.page_bytes)
        memory = np.random.default_rng(1).integers(0, 256, pages * layout.page_bytes, np.uint8)
        request = DigestRequest(Pool("kv", layout, {0: memory}), [0], list(range(pages)))
        times = []
        for _ in range(5):
            began = time.perf_counter()
            CpuBackend().launch(request).result()
            times.append(time.perf_counter() - began)
        rate = memory.size / statistics.median(times) / 1e9
        slowest = min(slowest, rate)
        print(f"  {name:14}{rate:6.2f}")
    assert page_digest(b"KVD64") == 0x145F4B8DCD1B62EA
    bar("7", "CPU, numpy: at least 0.5 GB/s", f"{slowest:.2f} GB/s at worst", slowest >= 0.5)


def compile_alone(layout: PageLayout, tuning: Tuning, mix: bool) -> None:
    torch.zeros(1, device="cuda")
    compile_digest(Geometry.of(layout, [0]), tuning, fold=True, mix=mix)


def sweep() -> None:
    """Microseconds for each way to cut the work, by pages a layer."""
    # Compiled on all cores first; Triton keeps what it compiled on disk.
    with ProcessPoolExecutor(mp_context=get_context("spawn")) as workers:
        wait(
            [workers.submit(compile_alone, *job) for job in product(LAYOUTS.values(), TUNINGS, (True, False))]
        )
    counts = (4, 8, 16, 32, 64, 128, 1024)
    for name, each in each_layout():
        print(f"{name}, pages of {each.layout.page_bytes} bytes; in brackets the plain sum")
        print(f"{'':24}" + "".join(f"{count:>18}" for count in counts))
        for tuning in TUNINGS:
            kernels = [each.kernel(tuning, mix=mix) for mix in (True, False)]
            cells = []
            for pages in counts:
                us = [median_us(*each.launches(kernel, pages), 7) for kernel in kernels]
                cells.append(f"{us[0]:8.1f} ({us[1]:7.1f})")
            compiled = kernels[0].compiled
            cut = f"{tuning.block:5} words {tuning.warps} warps {tuning.registers or ''}"
            print(f"  {cut:22}{''.join(cells)}   {compiled.n_regs} registers, {compiled.n_spills} spilled")


if __name__ == "__main__":
    main()
