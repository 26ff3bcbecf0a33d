"""The map of bad cells: what sums and page digests tell of it, and how small it stays."""

from __future__ import annotations

import pytest

from pd_tracer_hooks.wire import Coverage
from tracer.join.model import (
    Attempt,
    ComponentVerdict,
    LayerPages,
    RoomVerdict,
    SideExtent,
    TransferVerdict,
    Verdict,
    Where,
)
from tracer.pagemap import CellState, page_map, page_maps, worst_of

BAD, SUSPECTED, UNKNOWN, GOOD = CellState.bad, CellState.suspected, CellState.unknown, CellState.good
FULL, ENDS = Coverage.full, Coverage.ends


def part(
    where: Where | None, pages: int = 16, layers: int = 4, coverage: Coverage = FULL, name: str = "kv"
) -> ComponentVerdict:
    side = SideExtent(pages=pages, complete=True)
    return ComponentVerdict(
        component=name,
        verdict=Verdict.mismatch if where is not None else Verdict.match,
        coverage=coverage,
        layers=list(range(layers)),
        prefill=side,
        decode=side,
        where=where,
    )


def rows(part: ComponentVerdict, k: int = 2) -> list[tuple[list[int], str]]:
    """Layers, and their pages as letters."""
    letters = {BAD: "B", SUSPECTED: "s", UNKNOWN: "?", GOOD: "."}
    made = page_map(part, k=k)
    return [
        (row.layers, "".join(letters[state] * count for _, count, state in row.runs)) for row in made.rows
    ]


CASES = [
    (
        "sums of layers and buckets",
        part(Where(regions=["body"], layers=[1], page_runs=[(4, 3)])),
        [([0, 2, 3], "." * 16), ([1], "....sss.........")],
    ),
    (
        "no sums of layers: any of them",
        part(Where(regions=["tail"], page_runs=[(14, 2)])),
        [([0, 1, 2, 3], "..............ss")],
    ),
    (
        "the ends alone: nothing is said of the middle",
        part(Where(regions=["head"], layers=[0], page_runs=[(0, 2)]), coverage=ENDS),
        [([0], "ss????????????.."), ([1, 2, 3], "..????????????..")],
    ),
    (
        "page digests name the cells",
        part(
            Where(
                regions=["body"],
                layers=[1, 2],
                page_runs=[(4, 3)],
                cells=[LayerPages(layer=1, runs=[(4, 1), (6, 1)]), LayerPages(layer=2, runs=[(5, 1)])],
            )
        ),
        [([0, 3], "." * 16), ([1], "....B.B........."), ([2], ".....B..........")],
    ),
    (
        "cells that are not all listed leave the rest suspected",
        part(
            Where(
                regions=["body"],
                layers=[1, 2],
                page_runs=[(4, 3)],
                cells=[LayerPages(layer=1, runs=[(4, 1)])],
                cells_left_out=9,
            )
        ),
        [([0, 3], "." * 16), ([1], "....Bss........."), ([2], "....sss.........")],
    ),
    (
        "runs past the last page are cut",
        part(Where(regions=["tail"], layers=[0], page_runs=[(14, 9)]), layers=1),
        [([0], "..............ss")],
    ),
]


@pytest.mark.parametrize(("component", "expected"), [case[1:] for case in CASES], ids=[c[0] for c in CASES])
def test_states(component: ComponentVerdict, expected: list[tuple[list[int], str]]) -> None:
    assert rows(component) == expected


@pytest.mark.parametrize(("where", "exact"), [(case[1].where, n == 3) for n, case in enumerate(CASES)])
def test_only_page_digests_of_all_cells_are_exact(where: Where, exact: bool) -> None:
    assert page_map(part(where)).exact is exact


def test_without_k_what_lies_outside_the_damage_is_unknown_at_the_ends() -> None:
    component = part(Where(regions=["head"], page_runs=[(0, 2)]), coverage=ENDS, layers=1)
    assert rows(component, k=0) == [([0], "ss" + "?" * 14)]


def test_a_map_is_bounded_and_hides_no_bad_cell() -> None:
    """Every other page of 100,000 differs: blocks are as bad as the worst of their pages."""
    pages = 100_000
    scattered = [(page, 1) for page in range(0, pages, 7)]
    where = Where(
        regions=["body"], layers=[0, 1], page_runs=[(0, pages)], cells=[LayerPages(layer=1, runs=scattered)]
    )
    made = page_map(part(where, pages=pages, layers=2), most=64)
    assert sum(len(row.runs) for row in made.rows) <= 64
    assert made.grain > 1
    [good, bad] = made.rows
    assert (good.layers, good.runs) == ([0], [(0, pages, GOOD)])
    for page, _ in scattered:
        assert worst_of(bad.runs, page, 1) is BAD


def test_a_run_that_fits_is_kept_page_by_page() -> None:
    made = page_map(part(Where(regions=["body"], layers=[3], page_runs=[(5, 1)]), pages=1 << 24))
    assert made.grain == 1
    assert made.rows[1].runs == [(0, 5, GOOD), (5, 1, SUSPECTED), (6, (1 << 24) - 6, GOOD)]


@pytest.mark.parametrize(
    ("first", "count", "state"),
    [(0, 4, GOOD), (3, 2, SUSPECTED), (4, 3, SUSPECTED), (7, 9, GOOD), (99, 1, GOOD)],
)
def test_worst_of(first: int, count: int, state: CellState) -> None:
    made = page_map(part(Where(regions=["body"], layers=[0], page_runs=[(4, 3)]), layers=1))
    assert worst_of(made.rows[0].runs, first, count) is state


def test_what_does_not_differ_has_no_map() -> None:
    with pytest.raises(ValueError, match="'kv' has no place of a difference"):
        page_map(part(None))
    where = Where(regions=["head"], page_runs=[(0, 1)])
    transfers = [
        TransferVerdict(key=key, verdict=Verdict.mismatch, components=[part(where), part(None, name="swa")])
        for key in ("0a", "0b")
    ]
    attempt = Attempt(number=2, verdict=Verdict.mismatch, transfers=transfers)
    earlier = Attempt(number=1, verdict=Verdict.mismatch, transfers=transfers[:1])
    said = RoomVerdict(verdict=Verdict.mismatch, settled=True, attempts=[earlier, attempt])
    assert [(found.component, found.key) for found in page_maps(said, {})] == [("kv", "0a"), ("kv", "0b")]
    assert page_maps(RoomVerdict(verdict=Verdict.pending, settled=False), {}) == []
