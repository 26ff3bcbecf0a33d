"""The decision of a rollout check, by table."""

from __future__ import annotations

import pytest

from tracer.rollout.bounds import upper_bound
from tracer.rollout.decision import Counted, Demand, Outcome, decide, rooms_needed

DEMAND = Demand(max_mismatch_ratio=0.001, min_rooms=3000, min_coverage=0.95)


@pytest.mark.parametrize(
    ("match", "mismatch", "eligible", "outcome", "words"),
    [
        (3000, 0, 3000, Outcome.passed, "0 of 3000"),
        (3000, 0, 3158, Outcome.too_little, "94.99%"),
        (3000, 0, None, Outcome.too_little, "coverage is not known"),
        (2999, 0, 2999, Outcome.too_little, "at least 3000"),
        (0, 0, 5000, Outcome.too_little, "nothing was compared"),
        (0, 0, None, Outcome.too_little, "nothing was compared"),
        # One mismatch among 3000 keeps the limit, but not surely.
        (2999, 1, 3000, Outcome.too_little, "4742 rooms"),
        (4741, 1, 4742, Outcome.passed, "1 of 4742"),
        (4740, 1, 4741, Outcome.too_little, "4742 rooms"),
        (2996, 4, 3000, Outcome.failed, "4 of 3000"),
        # Over the limit is a fail however little there is, also without coverage.
        (9, 1, None, Outcome.failed, "10.0000%"),
        (0, 1, 1, Outcome.failed, "1 of 1"),
    ],
)
def test_decision(match: int, mismatch: int, eligible: int | None, outcome: Outcome, words: str) -> None:
    decision = decide(Counted(match, mismatch, eligible), DEMAND)
    assert decision.outcome is outcome
    assert words in "; ".join(decision.reasons)


def test_without_a_demand_for_coverage_nobody_has_to_know_it() -> None:
    assert decide(Counted(3000, 0, None), Demand(0.001, 3000, 0.0)).outcome is Outcome.passed


def test_all_that_is_lacking_is_said() -> None:
    assert len(decide(Counted(10, 0, 1000), DEMAND).reasons) == 3


@pytest.mark.parametrize(("hits", "limit"), [(0, 0.001), (1, 0.001), (7, 0.02), (0, 0.5)])
def test_rooms_needed_are_the_fewest(hits: int, limit: float) -> None:
    needed = rooms_needed(hits, limit)
    assert upper_bound(hits, needed) <= limit
    assert upper_bound(hits, needed - 1) > limit


def test_never() -> None:
    """A limit of nothing cannot be shown."""
    assert rooms_needed(0, 0.0) > 10**12
