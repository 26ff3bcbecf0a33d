"""From page digests to sums: the definition's sums, from any parts, with and without numpy."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.digests import bounded, cells, numpy_absent

from pd_tracer_hooks.digest.backend import PageDigests
from pd_tracer_hooks.digest.definition import (
    MASK,
    add,
    bucket_edges,
    cell_sum,
    head_pages,
    row_sum,
    tail_pages,
)
from pd_tracer_hooks.digest.fold import Folded, fold, needed_ordinals
from pd_tracer_hooks.runs import expand
from pd_tracer_hooks.u64s import U64s


def by_definition(digests: PageDigests, ordinals: list[int], total: int, k: int, full: bool) -> Folded:
    """The same sums, cell by cell."""
    values = iter(U64s(digests.data).values())
    table = [(layer, ordinal, next(values)) for layer in digests.layers for ordinal in ordinals]
    regions = [head_pages(total, k), tail_pages(total, k), range(total if full else 0)]
    picked = [[cell for cell in table if cell[1] in region] for region in regions]
    edges = bucket_edges(total)
    buckets = [range(*pair) for pair in pairwise(edges)] if full else []
    rows = [
        row_sum((page, value) for layer, page, value in part if layer == wanted)
        for wanted in digests.layers
        for part in picked
    ]
    head, tail, body = map(len, picked)
    return Folded(
        sums=U64s.of(cell_sum(part) for part in picked),
        cells=(head, tail, body),
        buckets=U64s.of(cell_sum(cell for cell in table if cell[1] in bucket) for bucket in buckets),
        layer_sums=U64s.of(rows),
    )


@st.composite
def parts(draw: st.DrawFn) -> tuple[PageDigests, list[int], int, int]:
    """(page digests, their ordinals, P, k): some pages of a transfer, in any order."""
    digests = draw(cells())
    total = digests.pages + draw(st.integers(0, 150))
    ordinals = draw(
        st.lists(st.integers(0, total - 1), min_size=digests.pages, max_size=digests.pages, unique=True)
    )
    return digests, ordinals, total, draw(st.integers(0, 8))


@bounded(150)
@given(part=parts(), full=st.booleans())
def test_equals_the_definition(part: tuple[PageDigests, list[int], int, int], full: bool) -> None:
    digests, ordinals, total, k = part
    expected = by_definition(digests, ordinals, total, k, full)
    how: dict[str, Any] = {"ordinals": ordinals, "total_pages": total, "k": k, "full": full}
    assert fold(digests, **how, layer_sums=True) == expected
    assert fold(digests, **how, layer_sums=False) == replace(expected, layer_sums=U64s())
    with numpy_absent():
        assert fold(digests, **how, layer_sums=True) == expected
        assert fold(digests, **how, layer_sums=False) == replace(expected, layer_sums=U64s())


def added(*arrays: U64s) -> U64s:
    return U64s.of(add(*values) for values in zip(*(each.values() for each in arrays), strict=True))


@bounded(100)
@given(data=st.data(), digests=cells(), k=st.integers(0, 8), full=st.booleans())
def test_any_split_adds_up_to_the_whole(
    data: st.DataObject, digests: PageDigests, k: int, full: bool
) -> None:
    """By pages, by layers, or both: every cell goes to one of up to four parts."""
    total = digests.pages
    page_part = data.draw(st.lists(st.integers(0, 1), min_size=total, max_size=total))
    layer_part = data.draw(
        st.lists(st.integers(0, 1), min_size=len(digests.layers), max_size=len(digests.layers))
    )
    values = U64s(digests.data).values()
    whole = fold(digests, ordinals=range(total), total_pages=total, k=k, full=full, layer_sums=True)
    pieces: list[Folded] = []
    rows = {layer: U64s.of([0, 0, 0]) for layer in digests.layers}
    for side in (0, 1):
        ordinals = [page for page in range(total) if page_part[page] == side]
        for group in (0, 1):
            chosen = [at for at, part in enumerate(layer_part) if part == group]
            part = PageDigests(
                tuple(digests.layers[at] for at in chosen),
                len(ordinals),
                bytes(U64s.of(values[at * total + page] for at in chosen for page in ordinals)),
                0.0,
                0.0,
            )
            folded = fold(part, ordinals=ordinals, total_pages=total, k=k, full=full, layer_sums=True)
            pieces.append(folded)
            for number, layer in enumerate(part.layers):
                rows[layer] = added(rows[layer], U64s(folded.layer_sums[24 * number : 24 * number + 24]))
    assert added(*(piece.sums for piece in pieces)) == whole.sums
    assert added(*(piece.buckets for piece in pieces)) == whole.buckets
    assert tuple(map(sum, zip(*(piece.cells for piece in pieces), strict=True))) == whole.cells
    assert b"".join(rows[layer] for layer in digests.layers) == whole.layer_sums


@bounded(50)
@given(part=parts())
def test_buckets_add_up_to_the_body(part: tuple[PageDigests, list[int], int, int]) -> None:
    digests, ordinals, total, k = part
    folded = fold(digests, ordinals=ordinals, total_pages=total, k=k, full=True, layer_sums=False)
    assert sum(folded.buckets.values()) & MASK == folded.sums.values()[2]
    assert folded.cells[2] == len(digests.layers) * digests.pages


def test_at_ends_pages_between_head_and_tail_count_nowhere() -> None:
    digests = PageDigests((5,), 6, bytes(U64s.of(range(100, 106))), 0.0, 0.0)
    folded = fold(digests, ordinals=range(6), total_pages=6, k=1, full=False, layer_sums=True)
    head, tail = cell_sum([(5, 0, 100)]), cell_sum([(5, 5, 105)])
    assert folded == Folded(
        U64s.of([head, tail, 0]),
        (1, 1, 0),
        U64s(),
        U64s.of([row_sum([(0, 100)]), row_sum([(5, 105)]), 0]),
    )


@pytest.mark.parametrize("numpy", [True, False])
def test_no_pages_fold_to_nothing(numpy: bool) -> None:
    digests = PageDigests((3, 4), 0, b"", 0.0, 0.0)
    how: dict[str, Any] = {"ordinals": [], "total_pages": 0, "k": 4, "full": True, "layer_sums": True}
    if numpy:
        folded = fold(digests, **how)
    else:
        with numpy_absent():
            folded = fold(digests, **how)
    assert folded == Folded(U64s.of([0, 0, 0]), (0, 0, 0), U64s(), U64s.of([0] * 6))


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"ordinals": [0]}, "1 ordinals for 2 pages"),
        ({"ordinals": [1, 1]}, "ordinals repeat"),
        ({"ordinals": [0, 9]}, "ordinal 9: the transfer has 9 pages"),
        ({"ordinals": [0, -1]}, "ordinal -1: the transfer has 9 pages"),
        ({"k": -1}, "k=-1"),
        ({"digests": PageDigests((1, 2), 2, bytes(24), 0.0, 0.0)}, "24 bytes of digests: 2 layers x 2 pages"),
    ],
)
def test_says_what_does_not_fit(change: dict[str, Any], reason: str) -> None:
    good: dict[str, Any] = {
        "digests": PageDigests((1, 2), 2, bytes(32), 0.0, 0.0),
        "ordinals": [0, 1],
        "total_pages": 9,
        "k": 2,
        "full": True,
        "layer_sums": False,
    }
    assert fold(**good).cells == (4, 0, 4)
    with pytest.raises(ValueError, match=reason):
        fold(**(good | change))


@pytest.mark.parametrize(
    ("total", "k", "full", "runs"),
    [
        (10, 3, True, [(0, 10)]),
        (10, 3, False, [(0, 3), (7, 3)]),
        (6, 3, False, [(0, 6)]),
        (5, 3, False, [(0, 5)]),
        (2, 3, False, [(0, 2)]),
        (10, 0, False, []),
        (0, 3, True, []),
        (0, 3, False, []),
    ],
)
def test_needed_ordinals(total: int, k: int, full: bool, runs: list[tuple[int, int]]) -> None:
    assert needed_ordinals(total, k, full) == runs


@bounded(60)
@given(digests=cells(), k=st.integers(0, 8))
def test_the_needed_ordinals_give_the_same_ends_as_all_of_them(digests: PageDigests, k: int) -> None:
    total = digests.pages
    values = U64s(digests.data).values()
    needed = expand(needed_ordinals(total, k, full=False))
    read = [values[at * total + page] for at in range(len(digests.layers)) for page in needed]
    ends = replace(digests, pages=len(needed), data=bytes(U64s.of(read)))
    how: dict[str, Any] = {"total_pages": total, "k": k, "full": False, "layer_sums": True}
    assert fold(ends, ordinals=needed, **how) == fold(digests, ordinals=range(total), **how)
