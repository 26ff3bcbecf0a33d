"""The GPU's digests and sums are the definition's, bit for bit."""

from __future__ import annotations

import random
import struct
from itertools import product

import pytest

from pd_tracer_hooks.digest.backend import DigestRequest, FoldSpec, PageDigests, Pool
from pd_tracer_hooks.digest.cpu import CpuBackend
from pd_tracer_hooks.digest.definition import cell_sum, final
from pd_tracer_hooks.digest.fold import fold
from pd_tracer_hooks.layout import DSA_INDEX_K, PageLayout, Segment
from pd_tracer_hooks.u64s import U64s

ZEROS = bytes(8448)
RAMP = bytes(i & 255 for i in range(8448))
SAWTOOTH = bytes((i * 167 + 13) & 255 for i in range(16384))

VECTORS = [
    (PageLayout.opaque(5), b"KVD64", None, "145f4b8dcd1b62ea"),
    (PageLayout.opaque(8448), ZEROS, None, "876b7f5cd2aa32b3"),
    (PageLayout.opaque(8448), RAMP, None, "6c0b879a8adfa44d"),
    (PageLayout.opaque(16384), SAWTOOTH, None, "7c36d6b2928ab164"),
    (PageLayout.plain(64, 656), b"\xff" * 41984, None, "bd5847b9d924adfc"),
    (DSA_INDEX_K, RAMP, 1, "6a3757e55df5f1ce"),
    (DSA_INDEX_K, RAMP, 7, "abb5597e8ee3688d"),
    (DSA_INDEX_K, RAMP, 10, "48a2604bdfa30e4f"),
    (DSA_INDEX_K, RAMP, 63, "db70bc5c22f72770"),
    (DSA_INDEX_K, RAMP, 64, "6c0b879a8adfa44d"),
]

LAYOUTS = {
    "index_k": DSA_INDEX_K,
    "kv_bf16": PageLayout.plain(64, 1152, "bfloat16"),
    "kv_fp8": PageLayout.plain(64, 656),
    "v4_c4": PageLayout(37440, 64, (Segment(0, 576), Segment(36864, 8))),
    "v4_c128": PageLayout(1728, 2, (Segment(0, 576), Segment(1152, 8))),
    "fp4_indexer": PageLayout(4352, 64, (Segment(0, 64), Segment(4096, 4))),
    "rows_of_4_bytes": PageLayout(68, 17, (Segment(0, 4),)),
    "segments_apart": PageLayout(1000, 10, (Segment(4, 20), Segment(404, 36))),
    "heads": PageLayout(8192, 16, tuple(Segment(head * 2048, 128) for head in range(4))),
    "odd_bytes": PageLayout.plain(3, 7),
    "pairs_of_bytes": PageLayout(100, 5, (Segment(2, 4), Segment(22, 10))),
    "one_word": PageLayout.plain(1, 8),
}


def expected(pool: Pool, request: DigestRequest) -> PageDigests:
    """What the CPU's path says of the same bytes."""
    host = Pool(pool.component, pool.layout, {layer: held.cpu() for layer, held in pool.buffers.items()})
    return CpuBackend().launch(DigestRequest(host, request.layers, request.pages, request.last_rows)).result()


def folded(digests: PageDigests, spec: FoldSpec):
    return fold(
        digests,
        ordinals=spec.ordinals,
        total_pages=spec.total_pages,
        k=spec.k,
        full=spec.full,
        layer_sums=spec.layer_sums,
    )


def device_pool(backend, layout, pages: dict[int, list[bytes]]) -> Pool:
    import torch

    buffers = {
        layer: torch.frombuffer(bytearray(b"".join(held)), dtype=torch.uint8).cuda()
        for layer, held in pages.items()
    }
    pool = Pool("kv", layout, buffers)
    backend.prepare(pool)
    return pool


@pytest.mark.parametrize(("layout", "page", "rows", "digest"), VECTORS, ids=lambda value: str(value)[:24])
def test_vectors_of_pages(backend, layout, page, rows, digest):
    pool = device_pool(backend, layout, {0: [page]})
    found = backend.launch(DigestRequest(pool, [0], [0], rows)).result()
    assert U64s(found.data).hex_list() == [digest]


def test_vectors_of_sums(backend):
    layout = PageLayout.opaque(8448)
    pool = device_pool(backend, layout, {3: [ZEROS, RAMP], 7: [RAMP, ZEROS]})
    spec = FoldSpec([0, 1], 2, 2, full=True, layer_sums=True)

    def sums(layers):
        return backend.launch(DigestRequest(pool, layers, [0, 1], fold=spec)).result().folded

    assert U64s(sums([3]).layer_sums).hex_list()[2] == "61b4bdc04f0a0276"
    assert [U64s(sums([layer]).sums).hex_list()[2] for layer in (3, 7)] == [
        "553a2ba5b2438822",
        "fc737acf4beb7a47",
    ]
    both = sums([3, 7])
    assert U64s(both.sums).hex_list() == ["51ada674fe2f0269"] * 3
    assert both.cells == (4, 4, 4)
    assert f"{final(U64s(both.sums).values()[2], 4):016x}" == "4328b020a12c9f73"


@pytest.mark.parametrize("layout", LAYOUTS.values(), ids=LAYOUTS)
def test_digests_and_sums_of_random_pages(backend, make_pool, layout):
    pool = make_pool(layout, layers=(2, 5, 60), pages=40)
    chance = random.Random(layout.page_bytes)
    wholes = [(1, True, 4), (5, True, 4), (70, True, 4), (200, True, 3), (70, False, 4)]
    for (total, full, k), rows_too in product(wholes, (True, False)):
        count = min(total, 33)
        spec = FoldSpec(chance.sample(range(total), count), total, k, full, rows_too)
        pages = chance.sample(range(40), count)
        rows = chance.choice([None, *range(1, layout.rows + 1)])
        request = DigestRequest(pool, (5, 60, 2), pages, rows, at_once=chance.random() < 0.5, fold=spec)
        found = backend.launch(request).result()
        wanted = expected(pool, request)
        assert found.data == wanted.data, (total, rows)
        assert found.folded == folded(wanted, spec), (total, full, k, rows_too)


@pytest.mark.parametrize("shift", [1, 2, 4, 8, 12])
def test_buffers_that_start_anywhere(backend, shift):
    import torch

    layout = PageLayout.plain(16, 36)
    held = torch.randint(0, 256, (layout.page_bytes * 9,), dtype=torch.uint8, device="cuda")
    pool = Pool("kv", layout, {0: held[shift : shift + layout.page_bytes * 8]})
    backend.prepare(pool)
    request = DigestRequest(pool, [0], [7, 0, 3], 5)
    assert backend.launch(request).result().data == expected(pool, request).data


@pytest.mark.parametrize(
    "dtype", ["float32", "bfloat16", "float16", "float8_e4m3fn", "int8", "int64", "bool"]
)
def test_any_dtype_is_bytes(backend, dtype):
    import torch

    raw = torch.randint(0, 256, (6, 64, 128), dtype=torch.uint8, device="cuda")
    typed = (raw & 1).bool() if dtype == "bool" else raw.view(getattr(torch, dtype))
    layout = PageLayout.plain(64, 128, dtype)
    pool = Pool("kv", layout, {0: typed})
    backend.prepare(pool)
    request = DigestRequest(pool, [0], [5, 1], 9)
    plain = Pool("kv", layout, {0: typed.view(torch.uint8)})
    assert backend.launch(request).result().data == expected(plain, request).data


def test_chunks_and_layers_add_up(backend, make_pool):
    pool = make_pool(DSA_INDEX_K, layers=tuple(range(4)), pages=100)

    def sums(layers, ordinals):
        spec = FoldSpec(ordinals, 100, 4, full=True)
        return U64s(
            backend.launch(DigestRequest(pool, layers, ordinals, fold=spec)).result().folded.sums
        ).values()

    whole = sums(range(4), range(100))
    parts = [
        sums(layers, ordinals) for layers in ((0, 1), (2, 3)) for ordinals in (range(37), range(37, 100))
    ]
    assert whole == tuple(sum(values) % 2**64 for values in zip(*parts, strict=True))


def test_pages_beyond_four_gigabytes(backend):
    import torch

    layout = PageLayout.plain(64, 1152)
    pages = (5 << 30) // layout.page_bytes
    buffer = torch.zeros(pages * layout.page_bytes, dtype=torch.uint8, device="cuda")
    buffer[-layout.page_bytes :] = 7
    pool = Pool("kv", layout, {0: buffer})
    backend.prepare(pool)
    found = backend.launch(DigestRequest(pool, [0], [pages - 1, 0])).result()
    from pd_tracer_hooks.digest.pages import page_digest

    assert U64s(found.data).values() == (page_digest(b"\7" * layout.page_bytes), page_digest(bytes(73728)))


def test_one_changed_bit_and_swapped_words_show(backend, make_pool):
    import torch

    pool = make_pool(PageLayout.plain(64, 656), pages=4)
    request = DigestRequest(pool, [0], [1])
    first = backend.launch(request).result().data
    words = pool.buffers[0].view(torch.int64)
    at = 41984 // 8 + 100
    words[at] ^= 1
    second = backend.launch(request).result().data
    words[at] ^= 1
    words[at], words[at + 1] = words[at + 1].clone(), words[at].clone()
    third = backend.launch(request).result().data
    assert len({first, second, third}) == 3


def test_pages_that_the_pool_does_not_have(backend, make_pool):
    pool = make_pool(DSA_INDEX_K, layers=(0, 1), pages=4)
    for pages, ordinals in [([0, 4], [0, 1]), ([-1, 0], [0, 1]), ([0, 1], [0, 2])]:
        spec = FoldSpec(ordinals, 2, 1, full=True)
        with pytest.raises(ValueError, match="2 cells name a page"):
            backend.launch(DigestRequest(pool, (0, 1), pages, fold=spec)).result()
    assert backend.launch(DigestRequest(pool, (0, 1), [0, 3])).result().pages == 2


@pytest.mark.parametrize(
    ("changes", "error", "text"),
    [
        ({"layers": (0, 9)}, ValueError, "layer 9"),
        ({"last_rows": 65}, ValueError, "last_rows=65"),
        ({"last_rows": 0}, ValueError, "last_rows=0"),
        ({"pages": [[1], [2]]}, struct.error, "integer"),
        ({"pages": [0, 1], "fold": FoldSpec([0], 2, 1, True)}, ValueError, "1 ordinals for 2 pages"),
        ({"pages": [0.5]}, struct.error, "integer"),
    ],
)
def test_wrong_requests_are_said_by_the_result(backend, make_pool, changes, error, text):
    pool = make_pool(DSA_INDEX_K, pages=4)
    free = backend.scratch_free_bytes()
    pending = backend.launch(DigestRequest(**{"pool": pool, "layers": (0,), "pages": [0], **changes}))
    assert pending.ready()
    with pytest.raises(error, match=text):
        pending.result()
    assert backend.scratch_free_bytes() == free


def test_ordinals_that_repeat(backend, make_pool):
    pool = make_pool(DSA_INDEX_K, pages=4)
    with pytest.raises(ValueError, match="ordinals repeat"):
        backend.launch(DigestRequest(pool, (0,), [0, 1], fold=FoldSpec([1, 1], 2, 1, True))).result()


def test_nothing_to_digest(backend, make_pool):
    pool = make_pool(DSA_INDEX_K)
    spec = FoldSpec([], 9, 2, full=True)
    found = backend.launch(DigestRequest(pool, (0,), [], fold=spec)).result()
    assert (found.data, found.pages, found.folded) == (b"", 0, folded(found, spec))


def test_the_sums_of_words_pages_and_layers_are_bound_to_their_places(backend, make_pool):
    pool = make_pool(DSA_INDEX_K, layers=(0, 1), pages=4)

    def total(layers, pages):
        spec = FoldSpec([0, 1], 2, 0, full=True)
        return backend.launch(DigestRequest(pool, layers, pages, fold=spec)).result().folded.sums

    pool.buffers[1].copy_(pool.buffers[0])
    assert total((0,), [1, 2]) != total((0,), [2, 1])
    assert total((0,), [1, 2]) != total((1,), [1, 2])


def test_digests_are_what_the_definition_sums(backend, make_pool):
    pool = make_pool(DSA_INDEX_K, layers=(4,), pages=3)
    found = backend.launch(
        DigestRequest(pool, (4,), [0, 1, 2], fold=FoldSpec([0, 1, 2], 3, 1, True))
    ).result()
    values = U64s(found.data).values()
    assert U64s(found.folded.sums).values() == (
        cell_sum([(4, 0, values[0])]),
        cell_sum([(4, 2, values[2])]),
        cell_sum((4, page, value) for page, value in enumerate(values)),
    )
