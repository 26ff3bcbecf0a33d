"""Injected faults against the table of what can be told, with all evidence and with each piece taken away."""

from __future__ import annotations

import random

import pytest
from support.injected import IN_BYTES, IN_REPORTS, INTACT, OPTIONAL, inject, mixture

from pd_tracer_hooks.wire import Coverage
from tracer.join.model import Verdict
from tracer.join.tellable import TABLE, Saw, tellable

FAULTS = (*IN_BYTES, *IN_REPORTS, INTACT)


def test_every_row_is_injected() -> None:
    assert set(FAULTS) == set(TABLE)
    numbers = {fault.split()[0] for fault in FAULTS}
    assert numbers == {f"F{number}" for number in range(1, 19)}


@pytest.mark.parametrize("coverage", list(Coverage))
@pytest.mark.parametrize("fault", FAULTS)
def test_all_evidence_each_piece_taken_away_and_nothing_but_send_and_receive(
    fault: str, coverage: Coverage
) -> None:
    problems = []
    for seed in range(2):
        for saw in (set(OPTIONAL), *(set(OPTIONAL) - {one} for one in OPTIONAL), set[Saw]()):
            problems += inject(fault, saw, random.Random(seed), coverage).problems()
    assert problems == []


@pytest.mark.parametrize("fault", FAULTS)
def test_each_piece_alone(fault: str) -> None:
    problems = []
    for one in OPTIONAL:
        problems += inject(fault, {one}, random.Random(7)).problems()
    assert problems == []


def test_a_mixture_of_rooms() -> None:
    rooms = mixture(300, seed=11, rate=0.3)
    assert [problem for room in rooms for problem in room.problems()] == []
    assert {room.fault for room in rooms} == set(FAULTS)


def test_no_fault_is_told_as_another_however_little_is_seen() -> None:
    for fault, rows in TABLE.items():
        needs = [row.needs for row in rows]
        assert needs[-1] == frozenset(), f"{fault}: what is said when nothing was seen?"
        for one in Saw:
            assert tellable(fault, {one}).verdict in {row.outcome.verdict for row in rows}
    assert tellable("F1", {Saw.place, Saw.later}).verdict is Verdict.mismatch
