"""Other rooms' page digests in a victim's pages."""

from __future__ import annotations

import pytest

from tracer.join.details import Cell
from tracer.join.donors import found_in
from tracer.join.model import Donor, How

MINE = {(layer, page): 100 * layer + page for layer in (0, 1) for page in range(8)}
THEIRS = {(layer, page): 1000 + 100 * layer + page for layer in (0, 1) for page in range(4)}


@pytest.mark.parametrize(
    ("arrived", "runs", "layers"),
    [
        # The donor's page 2 lies in the victim's page 5.
        ({(0, 5): 1002}, [(5, 1)], [0]),
        ({(0, 5): 1002, (1, 5): 1102, (0, 6): 1003, (1, 6): 1103}, [(5, 2)], [0, 1]),
        # Named are only layers x pages of which every cell is the donor's.
        ({(0, 5): 1002, (1, 6): 1103}, [(5, 1)], [0]),
        ({(0, 4): 1000, (0, 5): 1002, (1, 5): 1102, (0, 6): 1003}, [(4, 3)], [0]),
        # The other layer's page is nobody's in this one.
        ({(0, 5): 1102}, None, None),
        # The victim's own page in another place.
        ({(0, 5): 3}, None, None),
        ({(0, 5): 7}, None, None),
        ({}, None, None),
    ],
)
def test_found(arrived: dict[Cell, int], runs: list[tuple[int, int]] | None, layers: list[int]) -> None:
    found = found_in("17", [THEIRS], victim_sent=MINE, victim_received=MINE | arrived, key="k", held_from=3.0)
    if runs is None:
        assert found is None
    else:
        assert found == Donor(
            room="17", how=How.digests, page_runs=runs, layers=layers, key="k", held_from=3.0
        )


def test_bytes_that_many_pages_have_prove_nothing() -> None:
    zeros = THEIRS | {(0, 0): 555, (0, 1): 555}
    arrived = MINE | {(0, 5): 555}
    assert found_in("17", [zeros], victim_sent=MINE, victim_received=arrived) is None
    assert found_in("17", [THEIRS, {(0, 9): 555}], victim_sent=MINE, victim_received=arrived) is not None


def test_a_page_that_the_victim_sent_too_proves_nothing() -> None:
    shared = THEIRS | {(0, 2): MINE[0, 3]}
    arrived = MINE | {(0, 5): MINE[0, 3]}
    assert found_in("17", [shared], victim_sent=MINE, victim_received=arrived) is None
