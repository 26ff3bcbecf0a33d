"""Exact one-sided bounds for the ratio behind a count: what a rollout may rest on.

Clopper and Pearson (1934): the upper bound is the ratio at which as few hits as were seen, or fewer, would
come with probability 1 - confidence. Never too low, however rare the hits, which is why it is taken here and
not Wilson's: that one falls short of its confidence where hits are rarest, and mismatches are.
"""

from __future__ import annotations

from math import exp, lgamma, log, log1p

#: Halvings of an interval of length 1 until nothing of it is left.
_HALVINGS = 200
_TINY = 1e-300
_EPSILON = 1e-15
_MAX_TERMS = 10_000


def upper_bound(hits: int, total: int, confidence: float = 0.95) -> float:
    """The ratio that lies above the true one with ``confidence``, for ``hits`` of ``total``; 1 of nothing.

    Without a hit it is 1 - (1 - confidence) ** (1 / total), about 3 / total at 95 %.
    Raises ``ValueError`` unless 0 <= hits <= total and 0 < confidence < 1.
    """
    _check(hits, total, confidence)
    if hits == total:
        return 1.0
    # P(at most `hits`) at ratio x is 1 - I_x(hits + 1, total - hits).
    return _solve(hits + 1, total - hits, confidence)


def lower_bound(hits: int, total: int, confidence: float = 0.95) -> float:
    """The ratio that lies below the true one with ``confidence``; 0 without a hit.

    Raises ``ValueError`` unless 0 <= hits <= total and 0 < confidence < 1.
    """
    _check(hits, total, confidence)
    if hits == 0:
        return 0.0
    return _solve(hits, total - hits + 1, 1 - confidence)


def _check(hits: int, total: int, confidence: float) -> None:
    if not 0 <= hits <= total:
        raise ValueError(f"hits={hits}, total={total}: use 0 <= hits <= total")
    if not 0 < confidence < 1:
        raise ValueError(f"confidence={confidence}: use a number between 0 and 1")


def _solve(a: float, b: float, wanted: float) -> float:
    """The x at which the regularised incomplete beta function I_x(a, b) is ``wanted``."""
    low, high = 0.0, 1.0
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        if middle in (low, high):
            break
        if incomplete_beta(middle, a, b) < wanted:
            low = middle
        else:
            high = middle
    return (low + high) / 2


def incomplete_beta(x: float, a: float, b: float) -> float:
    """The regularised incomplete beta function I_x(a, b), for a, b > 0 and 0 <= x <= 1.

    By its continued fraction (DLMF 8.17.22), on the side where that converges fast (DLMF 8.17.4).
    """
    if x <= 0:
        return 0.0
    if x >= 1:
        return 1.0
    if x > (a + 1) / (a + b + 2):
        return 1.0 - incomplete_beta(1 - x, b, a)
    front = exp(lgamma(a + b) - lgamma(a) - lgamma(b) + a * log(x) + b * log1p(-x)) / a
    return front / _fraction(x, a, b)


def _fraction(x: float, a: float, b: float) -> float:
    """1 + d1/(1 + d2/(1 + ...)), evaluated from the front as Lentz did."""
    value, c, d = 1.0, 1.0, 0.0
    for term in range(1, _MAX_TERMS):
        m = term // 2
        if term % 2:
            step = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1))
        else:
            step = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m))
        d = 1.0 / _away_from_zero(1.0 + step * d)
        c = _away_from_zero(1.0 + step / c)
        value *= c * d
        if abs(c * d - 1.0) < _EPSILON:
            break
    return value


def _away_from_zero(value: float) -> float:
    return value if abs(value) > _TINY else _TINY
