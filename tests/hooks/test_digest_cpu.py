"""The CPU path: any layout, any buffer, with and without numpy, and what it says of bad requests."""

from __future__ import annotations

import random
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.digests import bounded, digest, layouts, numpy_absent

from pd_tracer_hooks.digest import definition, pages
from pd_tracer_hooks.digest.backend import DigestBackend, DigestRequest, Pool
from pd_tracer_hooks.digest.cpu import CpuBackend
from pd_tracer_hooks.digest.fold import fold
from pd_tracer_hooks.layout import DSA_INDEX_K, PageLayout, Segment
from pd_tracer_hooks.u64s import U64s

torch = pytest.importorskip("torch")


def expected(memory: bytes, layout: PageLayout, numbers: list[int], last_rows: int | None) -> list[int]:
    """One layer's page digests, page by page from their bytes."""
    size = layout.page_bytes
    rows = [None] * (len(numbers) - 1) + [last_rows]
    return [
        pages.page_digest(*layout.valid_parts(memory[page * size : (page + 1) * size], valid))
        for page, valid in zip(numbers, rows, strict=True)
    ]


@bounded(150)
@given(data=st.data(), layout=layouts())
def test_equals_the_definition_on_any_layout(data: st.DataObject, layout: PageLayout) -> None:
    held = data.draw(st.integers(1, 5))
    numbers = data.draw(st.lists(st.integers(0, held - 1), min_size=1, max_size=8))
    last_rows = data.draw(st.none() | st.integers(1, layout.rows))
    seed, stray = data.draw(st.integers(0, 1000)), data.draw(st.integers(0, 7))
    memory = random.Random(seed).randbytes(stray + held * layout.page_bytes)
    # A view that starts at any address, odd ones too.
    pool = Pool("x", layout, {4: memoryview(memory)[stray:]})
    found = digest(pool, [4], numbers, last_rows)
    assert list(U64s(found.data).values()) == expected(memory[stray:], layout, numbers, last_rows)
    with numpy_absent():
        assert digest(pool, [4], numbers, last_rows).data == found.data


WIDE = [
    PageLayout.plain(64, 1152),
    PageLayout.opaque(300_001),
    PageLayout(400_000, 3, (Segment(5, 50_003), Segment(150_020, 77_777))),
]


@pytest.mark.parametrize("layout", [DSA_INDEX_K, *WIDE], ids=["index_k", "kv", "opaque", "wide segments"])
@pytest.mark.parametrize("last_rows", [None, 1])
def test_equals_the_definition_on_pages_up_to_several_blocks(
    layout: PageLayout, last_rows: int | None
) -> None:
    memory = random.Random(layout.page_bytes).randbytes(4 * layout.page_bytes)
    numbers = [2, 0, 3, 3, 1] * (1 if layout.page_bytes > 10_000 else 9)
    found = digest(Pool("x", layout, {0: memory}), [0], numbers, last_rows)
    assert list(U64s(found.data).values()) == expected(memory, layout, numbers, last_rows)


@pytest.mark.parametrize(
    "buffer",
    [
        torch.arange(4 * 576, dtype=torch.float32).to(torch.bfloat16).reshape(4, 1, 576),
        torch.arange(8 * 576, dtype=torch.float32).reshape(8, 576).to(torch.float8_e4m3fn),
        torch.arange(1152, dtype=torch.float32),
        np.arange(576, dtype=np.int64),
        bytearray(range(256)) * 18,
    ],
    ids=["bf16", "fp8", "f32", "numpy", "bytearray"],
)
def test_buffers_of_any_type(buffer: Any) -> None:
    layout = PageLayout.plain(2, 1152)
    if isinstance(buffer, torch.Tensor):
        memory = buffer.reshape(-1).view(torch.uint8).numpy().tobytes()
    else:
        memory = bytes(buffer)
    found = digest(Pool("kv", layout, {0: buffer}), [0], [1, 0], 1)
    assert list(U64s(found.data).values()) == expected(memory, layout, [1, 0], 1)


def test_pages_and_ordinals_may_be_numpy_arrays() -> None:
    pool = Pool("x", PageLayout.plain(2, 8), {0: bytes(range(64))})
    as_array, as_list = np.array([3, 1], np.int32), [3, 1]
    read = CpuBackend().launch(DigestRequest(pool, [0], as_array, 1)).result()
    assert read.data == digest(pool, [0], as_list, 1).data
    how: dict[str, Any] = {"total_pages": 9, "k": 2, "full": True, "layer_sums": True}
    assert fold(read, ordinals=as_array, **how) == fold(read, ordinals=as_list, **how)


def test_layers_come_in_the_order_asked_for() -> None:
    layout = PageLayout.opaque(8)
    buffers = {layer: bytes([layer]) * 16 for layer in range(4)}
    found = digest(Pool("x", layout, buffers), [3, 1], [1, 0])
    by_layer = {layer: definition.page_digest(bytes([layer]) * 8) for layer in buffers}
    assert found.layers == (3, 1)
    assert found.pages == 2
    assert U64s(found.data).values() == (by_layer[3], by_layer[3], by_layer[1], by_layer[1])


def test_is_ready_at_once_and_says_when_it_read() -> None:
    backend: DigestBackend = CpuBackend()
    before = time.time()
    pending = backend.launch(DigestRequest(Pool("x", DSA_INDEX_K, {0: bytes(8448)}), [0], [0]))
    assert pending.ready()
    found = pending.result()
    assert before <= found.read_started <= found.read_ended <= time.time()


def test_prepare_tells_what_cannot_be_read() -> None:
    CpuBackend().prepare(Pool("x", DSA_INDEX_K, {0: bytes(8448), 1: torch.zeros(8448)}))
    with pytest.raises(ValueError, match="not contiguous"):
        CpuBackend().prepare(Pool("x", DSA_INDEX_K, {0: bytes(8448), 1: torch.zeros(8448, 2)[:, 0]}))


def test_no_pages_or_no_layers_is_nothing() -> None:
    pool = Pool("x", DSA_INDEX_K, {0: bytes(8448)})
    # No token fills no page, of which the last has no row: how split_rows says it.
    none, last_rows = DSA_INDEX_K.split_rows(0)
    assert digest(pool, [0], list(range(none)), last_rows).data == b""
    assert digest(pool, [], [0]).data == b""


GOOD = DigestRequest(Pool("index_k", DSA_INDEX_K, {0: bytes(2 * 8448), 1: bytes(8448)}), [0, 1], [0])

BAD: list[tuple[dict[str, Any], type[Exception], str]] = [
    ({"last_rows": 0}, ValueError, "last_rows=0: a page of index_k has 1 to 64 valid rows; leave"),
    ({"last_rows": 65}, ValueError, "last_rows=65: .* 1 to 64"),
    ({"last_rows": -1}, ValueError, "last_rows=-1: .* 1 to 64"),
    ({"pages": [0, 1]}, ValueError, "page 1: index_k's buffer of layer 1 has 1 pages"),
    ({"pages": [0, -1]}, ValueError, "page -1: index_k's buffer of layer 0 has 2 pages"),
    ({"layers": [0, 9]}, ValueError, r"layer 9: index_k has buffers for \[0, 1\]"),
    ({"pool": Pool("index_k", DSA_INDEX_K, {0: None, 1: b""})}, TypeError, "NoneType is no buffer"),
]


@pytest.mark.parametrize("numpy", [True, False])
@pytest.mark.parametrize(("change", "kind", "reason"), BAD)
def test_a_bad_request_is_told_by_the_result(
    change: dict[str, Any], kind: type[Exception], reason: str, numpy: bool
) -> None:
    assert len(CpuBackend().launch(GOOD).result().data) == 16
    if numpy:
        pending = CpuBackend().launch(replace(GOOD, **change))
    else:
        with numpy_absent():
            pending = CpuBackend().launch(replace(GOOD, **change))
    assert pending.ready()
    with pytest.raises(kind, match=reason):
        pending.result()


def test_threads_do_not_share_their_scratch() -> None:
    layout = PageLayout.plain(64, 1152)
    memories = [random.Random(seed).randbytes(6 * layout.page_bytes) for seed in range(4)]
    pools = [Pool("kv", layout, {0: memory}) for memory in memories]
    alone = [digest(pool, [0], list(range(6))).data for pool in pools]
    with ThreadPoolExecutor(4) as threads:
        for _ in range(5):
            together = threads.map(lambda pool: digest(pool, [0], list(range(6))).data, pools)
            assert list(together) == alone


def test_importing_it_imports_neither_numpy_nor_torch() -> None:
    names = ["cpu", "fold", "pages", "memory", "mixing", "blocks"]
    code = "import sys; " + "; ".join(f"import pd_tracer_hooks.digest.{name}" for name in names)
    code += "; sys.exit(bool({'numpy', 'torch'} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
