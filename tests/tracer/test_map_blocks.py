"""The map of bad cells: what sums and page digests tell of it, and how small it stays."""

from __future__ import annotations

import pytest

from pd_tracer_hooks.wire import Coverage
from tracer.api.models.room import PageMap
from tracer.api.views import room_map
from tracer.cli.blocks import MAX_ROWS, Glyphs, blocks, heading, legend
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


UNICODE = Glyphs.for_encoding("utf-8")


def drawn(component: ComponentVerdict, width: int = 60, glyphs: Glyphs = UNICODE) -> list[str]:
    found = shown(component)
    lines = [line.plain for line in blocks(found, width, glyphs)]
    assert all(len(line) <= width for line in lines)
    return lines


def shown(component: ComponentVerdict) -> PageMap:
    return room_map(page_map(component, k=2))


def test_layers_are_rows_and_pages_are_columns() -> None:
    component = part(Where(regions=["body"], layers=[1], page_runs=[(4, 3)]))
    assert drawn(component) == [
        "layers 0, 2-3  ················",
        "       layer 1  ····▒▒▒·········".removeprefix(" "),
        "               0             15",
    ]
    assert heading(shown(component), 60) == "kv: 16 pages x 4 layers; from sums: where damage can lie"


def test_pages_are_folded_into_the_width_and_bad_ones_stay() -> None:
    cells = [LayerPages(layer=0, runs=[(999, 1)])]
    where = Where(regions=["body"], layers=[0], page_runs=[(999, 1)], cells=cells)
    component = part(where, pages=1000, layers=1)
    row, ruler = drawn(component, width=59)
    assert row == "layer 0  " + "·" * 49 + "█"
    assert ruler == "         0" + "999".rjust(49)
    assert heading(shown(component), 59) == (
        "kv: 1000 pages x 1 layers, 20 pages a column; cell by cell, from page digests"
    )


@pytest.mark.parametrize("width", [0, 1, 9, 12, 80, 5000])
def test_any_width_will_do(width: int) -> None:
    found = shown(part(Where(regions=["body"], layers=[0], page_runs=[(50, 1)]), pages=77, layers=1))
    row = next(iter(blocks(found, width, UNICODE))).plain
    assert row.count("▒") == 1


def test_a_block_of_a_coarse_map_is_one_column() -> None:
    pages = 10_000
    cells = [LayerPages(layer=0, runs=[(page, 1) for page in range(0, pages, 2)])]
    where = Where(regions=["body"], layers=[0], page_runs=[(0, pages)], cells=cells)
    found = room_map(page_map(part(where, pages=pages, layers=1), most=100))
    [row, _] = blocks(found, 70, UNICODE)
    assert set(row.plain.removeprefix("layer 0  ")) == {"█"}


def test_states_differ_without_colour() -> None:
    for encoding in ("utf-8", "ascii", "latin-1", "no such"):
        glyphs = Glyphs.for_encoding(encoding)
        assert len(set(glyphs.by_state.values())) == len(CellState)
        if encoding in ("ascii", "latin-1"):
            legend(glyphs).plain.encode(encoding)
    assert legend(UNICODE).plain == "█ bad  ▒ suspected  ? unknown  · good"
    assert legend(Glyphs.for_encoding("ascii")).plain == "# bad  + suspected  ? unknown  . good"


def test_of_many_different_layers_the_first_are_drawn() -> None:
    cells = [LayerPages(layer=layer, runs=[(layer, 1)]) for layer in range(90)]
    where = Where(regions=["body"], layers=list(range(90)), page_runs=[(0, 90)], cells=cells)
    lines = drawn(part(where, pages=100, layers=90), width=120)
    assert len(lines) == MAX_ROWS + 2
    assert lines[-2].strip() == "and 50 more rows: --json has them"


def test_a_long_list_of_layers_is_cut() -> None:
    where = Where(regions=["body"], layers=list(range(0, 60, 2)), page_runs=[(0, 4)])
    first, second, _ = drawn(part(where, layers=60))
    assert first.startswith("30 layers, 0, ...  ▒▒▒▒·")
    assert second.startswith("30 layers, 1, ...  ····")
