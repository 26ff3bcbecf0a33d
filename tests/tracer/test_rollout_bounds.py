"""Exact bounds against published values, their own definition, and closed forms."""

from __future__ import annotations

from math import comb

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tracer.rollout.bounds import incomplete_beta, lower_bound, upper_bound


def at_most(hits: int, total: int, ratio: float) -> float:
    """P(X <= hits) for X of the binomial distribution, term by term."""
    return sum(comb(total, i) * ratio**i * (1 - ratio) ** (total - i) for i in range(hits + 1))


@pytest.mark.parametrize(
    ("hits", "total", "upper"),
    [
        # The two-sided 90 % limits of Clopper and Pearson have the one-sided 95 % bounds as their ends.
        (0, 10, 0.2589),
        (1, 10, 0.3942),
        (5, 10, 0.7776),
        (0, 3000, 0.000998),
        (10, 10, 1.0),
        (0, 0, 1.0),
    ],
)
def test_upper(hits: int, total: int, upper: float) -> None:
    assert upper_bound(hits, total) == pytest.approx(upper, abs=5e-5 if upper > 0.01 else 5e-7)


@pytest.mark.parametrize(
    ("hits", "total", "lower"), [(0, 10, 0.0), (1, 10, 0.0051), (5, 10, 0.2224), (10, 10, 0.7411)]
)
def test_lower(hits: int, total: int, lower: float) -> None:
    assert lower_bound(hits, total) == pytest.approx(lower, abs=5e-5)


@given(st.integers(1, 200).flatmap(lambda total: st.tuples(st.integers(0, total - 1), st.just(total))))
def test_by_definition(counts: tuple[int, int]) -> None:
    """At the upper bound, so few hits or fewer have 5 %; at the lower bound, so many or more."""
    hits, total = counts
    assert at_most(hits, total, upper_bound(hits, total)) == pytest.approx(0.05, rel=1e-6)
    low = lower_bound(hits + 1, total)
    assert 1 - at_most(hits, total, low) == pytest.approx(0.05, rel=1e-6)


@given(st.integers(1, 10**9), st.sampled_from([0.9, 0.95, 0.99]))
def test_without_a_hit(total: int, confidence: float) -> None:
    assert upper_bound(0, total, confidence) == pytest.approx(
        1 - (1 - confidence) ** (1 / total), rel=1e-6, abs=1e-12
    )


def test_large_counts() -> None:
    """Where sums of terms would take long the normal approximation is near."""
    assert upper_bound(5_000, 10_000_000) == pytest.approx(5e-4 + 1.645 * (5e-4 / 1e7) ** 0.5, rel=1e-3)


@pytest.mark.parametrize(("x", "value"), [(0.0, 0.0), (1.0, 1.0), (0.3, 0.3)])
def test_incomplete_beta_of_one_and_one_is_x(x: float, value: float) -> None:
    assert incomplete_beta(x, 1, 1) == pytest.approx(value)


@pytest.mark.parametrize(
    ("hits", "total", "confidence", "words"),
    [(-1, 3, 0.95, "hits=-1"), (4, 3, 0.95, "total=3"), (1, 3, 1.0, "confidence=1.0")],
)
def test_bad_input(hits: int, total: int, confidence: float, words: str) -> None:
    for bound in (upper_bound, lower_bound):
        with pytest.raises(ValueError, match=words):
            bound(hits, total, confidence)
