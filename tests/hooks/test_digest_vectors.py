"""The known answers, on every path: they tie all implementations, in whatever language, to one digest."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from support.digests import COUNTING, ZEROS, digest, numpy_absent

from pd_tracer_hooks.digest import definition, pages
from pd_tracer_hooks.digest.backend import Pool
from pd_tracer_hooks.digest.definition import add, cell_sum, final, hex64, row_sum
from pd_tracer_hooks.digest.fold import fold
from pd_tracer_hooks.layout import DSA_INDEX_K, PageLayout
from pd_tracer_hooks.u64s import U64s

torch = pytest.importorskip("torch")


def by_numpy(data: bytes) -> int:
    return U64s(digest(Pool("x", PageLayout.opaque(len(data)), {0: data}), [0], [0]).data).values()[0]


def by_torch(data: bytes) -> int:
    tensor = torch.frombuffer(bytearray(data), dtype=torch.uint8)
    return U64s(digest(Pool("x", PageLayout.opaque(len(data)), {0: tensor}), [0], [0]).data).values()[0]


def by_scalar_backend(data: bytes) -> int:
    with numpy_absent():
        return by_numpy(data)


PATHS = [definition.page_digest, pages.page_digest, by_numpy, by_torch, by_scalar_backend]

PAGES = [
    (b"KVD64", "145f4b8dcd1b62ea"),
    (ZEROS, "876b7f5cd2aa32b3"),
    (COUNTING, "6c0b879a8adfa44d"),
    (bytes((i * 167 + 13) & 255 for i in range(16384)), "7c36d6b2928ab164"),
    (b"\xff" * 41984, "bd5847b9d924adfc"),
]


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize(("data", "expected"), PAGES, ids=["short", "zeros", "counting", "mixed", "ones"])
def test_page(path: Callable[[bytes], int], data: bytes, expected: str) -> None:
    assert hex64(path(data)) == expected


@pytest.mark.parametrize("page_digest", [definition.page_digest, pages.page_digest])
def test_nothing(page_digest: Callable[..., int]) -> None:
    assert hex64(page_digest()) == hex64(page_digest(b"")) == "e220a8397b1dcdaf"


PARTIAL = [
    (1, "6a3757e55df5f1ce"),
    (7, "abb5597e8ee3688d"),
    (10, "48a2604bdfa30e4f"),
    (63, "db70bc5c22f72770"),
    (64, "6c0b879a8adfa44d"),
]


@pytest.mark.parametrize(("rows", "expected"), PARTIAL)
def test_partial_page_of_two_segments(rows: int, expected: str) -> None:
    assert hex64(definition.page_digest(*DSA_INDEX_K.valid_parts(COUNTING, rows))) == expected
    tensor = torch.frombuffer(bytearray(ZEROS + COUNTING), dtype=torch.float8_e4m3fn)
    pool = Pool("index_k", DSA_INDEX_K, {3: ZEROS + COUNTING, 5: tensor})
    full, partial = "876b7f5cd2aa32b3", expected
    assert U64s(digest(pool, [3, 5], [0, 1], rows).data).hex_list() == [full, partial, full, partial]
    with numpy_absent():
        assert U64s(digest(pool, [5], [1], rows).data).hex_list() == [partial]


Z, A = 0x876B7F5CD2AA32B3, 0x6C0B879A8ADFA44D


def test_sums_of_the_definition() -> None:
    assert hex64(row_sum([(0, Z), (1, A)])) == "61b4bdc04f0a0276"
    assert hex64(final(row_sum([(0, Z), (1, A)]), 2)) == "9020db0dda336d59"
    assert hex64(final(row_sum([(0, A), (1, Z)]), 2)) == "f52561854366bdfa"
    parts = cell_sum([(3, 0, Z), (3, 1, A)]), cell_sum([(7, 0, A), (7, 1, Z)])
    assert [hex64(part) for part in parts] == ["553a2ba5b2438822", "fc737acf4beb7a47"]
    assert hex64(add(*parts)) == "51ada674fe2f0269"
    assert hex64(final(add(*parts), 4)) == "4328b020a12c9f73"
    swapped = cell_sum([(3, 0, A), (3, 1, Z), (7, 0, Z), (7, 1, A)])
    assert hex64(final(swapped, 4)) == "bd8a717f5c5a3064"
    assert hex64(final(cell_sum([]), 0)) == "e220a8397b1dcdaf"


def test_sums_from_memory() -> None:
    pool = Pool("index_k", DSA_INDEX_K, {3: ZEROS + COUNTING, 7: COUNTING + ZEROS})
    read = digest(pool, [3, 7], [0, 1])
    folded = fold(read, ordinals=[0, 1], total_pages=2, k=4, full=True, layer_sums=True)
    assert folded.sums.hex_list() == ["51ada674fe2f0269"] * 3
    assert folded.cells == (4, 4, 4)
    assert folded.buckets.hex_list() == ["3cad051089418b9f", "1500a16474ed76ca"]
    assert folded.layer_sums.hex_list() == ["61b4bdc04f0a0276"] * 3 + ["b49db1f587e1f0db"] * 3
