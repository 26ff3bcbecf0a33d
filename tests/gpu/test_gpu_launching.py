"""A launch waits for nothing, keeps the order of its stream, and stays within its memory."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import threading
import time

import pytest

from pd_tracer_hooks.digest.backend import DigestRequest, FoldSpec, Pool, ScratchFull
from pd_tracer_hooks.layout import DSA_INDEX_K, PageLayout

LAYERS = tuple(range(61))


def fresh(backend, pool, pages, **more) -> bytes:
    """The digests of the pages as they are now."""
    import torch

    torch.cuda.synchronize()
    return backend.launch(DigestRequest(pool, more.pop("layers", (0,)), pages, **more)).result().data


@pytest.mark.parametrize("at_once", [False, True])
def test_launching_waits_for_nothing(backend, make_pool, busy, no_waiting, at_once):
    import torch

    pool = make_pool(DSA_INDEX_K, layers=LAYERS, pages=64)
    spec = FoldSpec(range(64), 64, 4, full=True)
    request = DigestRequest(pool, LAYERS, range(64), 9, at_once=at_once, fold=spec)
    backend.launch(request).result()
    own = torch.cuda.ExternalStream(backend._own)
    with no_waiting():
        with torch.cuda.stream(own if at_once else torch.cuda.current_stream()):
            busy(200)
        began = time.perf_counter()
        pending = [backend.launch(request) for _ in range(20)]
        took = time.perf_counter() - began
        assert not any(digest.ready() for digest in pending)
    assert took < 0.05
    assert len({digest.result().data for digest in pending}) == 1
    assert all(digest.ready() for digest in pending)


def test_own_stream_does_not_queue_behind_the_engine(backend, make_pool, busy):
    import torch

    pool = make_pool(DSA_INDEX_K, pages=8)
    behind = DigestRequest(pool, (0,), range(8))
    at_once = DigestRequest(pool, (0,), range(8), at_once=True)
    torch.cuda.synchronize()
    busy(200)
    first, second = backend.launch(behind), backend.launch(at_once)
    assert second.result().data == first.result().data
    assert second.result().read_ended < first.result().read_started - 0.05


def test_send_comes_after_the_engines_writes_and_admit_before_them(backend, make_pool, busy):
    import torch

    pool = make_pool(DSA_INDEX_K, pages=8)
    before = fresh(backend, pool, range(8))
    busy(50)
    pool.buffers[0].fill_(3)  # the forward's writes
    send = backend.launch(DigestRequest(pool, (0,), range(8)))
    busy(50)
    admit = backend.launch(DigestRequest(pool, (0,), range(8)))
    pool.buffers[0].fill_(4)  # decode's first own write
    after = fresh(backend, pool, range(8))
    assert send.result().data == admit.result().data
    assert len({before, send.result().data, after}) == 3
    torch.cuda.synchronize()


def test_one_launch_whatever_the_number_of_layers(backend, make_pool):
    import torch
    from torch.autograd import DeviceType
    from torch.profiler import ProfilerActivity, profile

    pool = make_pool(DSA_INDEX_K, layers=LAYERS, pages=300)
    request = DigestRequest(pool, LAYERS, range(300), 3, fold=FoldSpec(range(300), 300, 4, True))
    backend.launch(request).result()
    backend.clock.refresh(force=True)
    with profile(activities=[ProfilerActivity.CUDA], acc_events=True) as seen:
        backend.launch(request).result()
        torch.cuda.synchronize()
    on_device = [event.name for event in seen.events() if event.device_type == DeviceType.CUDA]
    assert sorted(name.split(" (")[0] for name in on_device) == ["Memcpy DtoH", "Memcpy HtoD", "digest_pages"]


def test_nothing_is_compiled_after_prepare(backend, make_pool, monkeypatch):
    import triton

    pool = make_pool(PageLayout.plain(8, 328), layers=(0, 1, 2), pages=64)
    compiled = []
    monkeypatch.setattr(triton.knobs.runtime, "jit_post_compile_hook", lambda **data: compiled.append(data))
    for count, rows, spec in [(1, None, None), (16, 1, None), (64, 7, FoldSpec(range(64), 64, 1, True))]:
        for layers in [(0,), (0, 1, 2)]:
            backend.launch(DigestRequest(pool, layers, range(count), rows, fold=spec)).result()
    assert not compiled


def test_a_pool_that_was_not_prepared(backend):
    import torch

    pool = Pool("kv", DSA_INDEX_K, {0: torch.zeros(8448, dtype=torch.uint8, device="cuda")})
    with pytest.raises(LookupError, match="prepare"):
        backend.launch(DigestRequest(pool, (0,), [0])).result()


def test_buffers_on_the_host_are_refused(backend):
    import torch

    with pytest.raises(ValueError, match="not on a CUDA device"):
        backend.prepare(Pool("kv", DSA_INDEX_K, {0: torch.zeros(8448, dtype=torch.uint8)}))


def test_full_scratch_is_said_and_comes_back(make_pool, busy):
    import torch

    from pd_tracer_hooks.digest.gpu.backend import GpuBackend

    small = GpuBackend(scratch_bytes=64 << 10, under_way=4)
    pool = make_pool(DSA_INDEX_K, layers=LAYERS, pages=16)
    small.prepare(pool)
    free = small.scratch_free_bytes()
    request = DigestRequest(pool, LAYERS, range(16))
    torch.cuda.synchronize()
    busy(100)
    pending = [small.launch(request) for _ in range(9)]
    outcomes = []
    for digest in pending:
        try:
            outcomes.append(digest.result().data)
        except ScratchFull as full:
            outcomes.append(str(full))
    assert outcomes.count("4 digests are under way, which is the limit") == 5
    assert len(set(outcomes[:4])) == 1
    with pytest.raises(ScratchFull, match="trace fewer rooms"):
        small.launch(DigestRequest(pool, LAYERS, list(range(16)) * 20)).result()
    assert small.launch(request).result().data == outcomes[0]
    assert small.scratch_free_bytes() == free


def test_dropped_digests_give_their_scratch_back(make_pool, busy):
    import torch

    from pd_tracer_hooks.digest.gpu.backend import GpuBackend

    small = GpuBackend(scratch_bytes=256 << 10, under_way=8)
    pool = make_pool(DSA_INDEX_K, layers=LAYERS, pages=16)
    small.prepare(pool)
    free = small.scratch_free_bytes()
    torch.cuda.synchronize()
    busy(500)
    pending = [small.launch(DigestRequest(pool, LAYERS, range(16))) for _ in range(4)]
    del pending
    gc.collect()
    assert small.scratch_free_bytes() < free
    torch.cuda.synchronize()
    assert small.scratch_free_bytes() == free


def test_scratch_beyond_the_limit_is_refused():
    from pd_tracer_hooks.digest.gpu.backend import GpuBackend

    with pytest.raises(ValueError, match="64 MiB"):
        GpuBackend(scratch_bytes=(64 << 20) + 1)


MEMORY = """
import torch
from pd_tracer_hooks.digest.backend import DigestRequest, FoldSpec, Pool
from pd_tracer_hooks.digest.gpu.backend import GpuBackend
from pd_tracer_hooks.layout import DSA_INDEX_K, PageLayout
layouts = [DSA_INDEX_K, PageLayout.plain(64, 1152), PageLayout.plain(64, 656)]
pools = [
    Pool("kv", each, {0: torch.zeros(4096 * each.page_bytes, dtype=torch.uint8, device="cuda")})
    for each in layouts
]
torch.zeros(1, device="cuda").add_(1)
torch.cuda.synchronize()
before = torch.cuda.mem_get_info()[0]
backend = GpuBackend()
attached = torch.cuda.mem_get_info()[0]
for pool in pools:
    backend.prepare(pool)
    spec = FoldSpec(range(4096), 4096, 4, True)
    for _ in range(20):
        backend.launch(DigestRequest(pool, (0,), range(4096), fold=spec)).result()
torch.cuda.synchronize()
print(before - attached, before - torch.cuda.mem_get_info()[0])
"""


def test_at_most_64_mib_of_device_memory_taken_at_attach():
    done = subprocess.run(
        [sys.executable, "-c", MEMORY], capture_output=True, text=True, check=False, env=dict(os.environ)
    )
    assert done.returncode == 0, done.stderr
    attached, later = map(int, done.stdout.split())
    print(f"device memory: {attached / 2**20:.1f} MiB at attach, {later / 2**20:.1f} MiB later")
    assert 0 < attached <= later <= 64 << 20


def test_read_times_are_the_hosts(backend, make_pool, busy):
    import torch

    backend.clock.refresh(force=True)
    pool = make_pool(DSA_INDEX_K, pages=8)
    torch.cuda.synchronize()
    before = time.time()
    busy(30)
    found = backend.launch(DigestRequest(pool, (0,), range(8))).result()
    after = time.time()
    assert found.read_error < 100e-6
    assert before + 0.01 < found.read_started <= found.read_ended < after + found.read_error
    assert found.read_ended - found.read_started < 0.001


def test_asking_from_another_thread_spoils_no_capture(backend, make_pool, busy):
    import torch

    pool = make_pool(DSA_INDEX_K, pages=8)
    wanted = fresh(backend, pool, range(8))
    busy(100)
    pending = backend.launch(DigestRequest(pool, (0,), range(8)))
    asked = threading.Event()
    found = []

    def collect():
        while not pending.ready():
            asked.set()
        found.append(pending.result().data)

    thread = threading.Thread(target=collect)
    thread.start()
    assert asked.wait(5)
    graph = torch.cuda.CUDAGraph()
    counter = torch.zeros(1, device="cuda")
    with torch.cuda.graph(graph):
        for _ in range(200):
            counter += 1
        thread.join(5)
    assert not thread.is_alive()
    graph.replay()
    torch.cuda.synchronize()
    assert found == [wanted]
    assert counter.item() == 200


def test_results_are_read_on_a_thread_without_a_context(backend, make_pool):
    pool = make_pool(DSA_INDEX_K, pages=8)
    pending = backend.launch(DigestRequest(pool, (0,), range(8), at_once=True))
    found = []
    thread = threading.Thread(target=lambda: found.append(pending.result().data))
    thread.start()
    thread.join()
    assert found == [fresh(backend, pool, range(8))]


def test_the_gpu_is_chosen():
    from pd_tracer_hooks.digest.choose import choose_backend

    assert choose_backend(scratch_bytes=1 << 20).name == "gpu"


def test_without_triton_the_cpu_is_chosen_with_a_log_line(monkeypatch, caplog):
    from pd_tracer_hooks.digest.choose import choose_backend

    monkeypatch.setitem(sys.modules, "pd_tracer_hooks.digest.gpu.backend", None)
    assert choose_backend().name == "cpu"
    assert "no Triton" in caplog.text
