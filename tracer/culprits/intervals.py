"""Confidence intervals for ratios of counts, in closed form."""

from __future__ import annotations

from math import sqrt
from typing import NamedTuple

#: Two-sided 95 %.
Z95 = 1.959963984540054


class Interval(NamedTuple):
    """Lower and upper bound."""

    low: float
    high: float


def wilson(hits: int, total: int, z: float = Z95) -> Interval:
    """Wilson's score interval (1927) for the ratio behind ``hits`` of ``total``; (0, 1) of nothing.

    Raises ``ValueError`` unless 0 <= hits <= total.
    """
    if not 0 <= hits <= total:
        raise ValueError(f"hits={hits}, total={total}: use 0 <= hits <= total")
    if total == 0:
        return Interval(0.0, 1.0)
    ratio = hits / total
    scale = 1 + z * z / total
    middle = ratio + z * z / (2 * total)
    reach = z * sqrt(ratio * (1 - ratio) / total + z * z / (4 * total * total))
    return Interval(max(0.0, (middle - reach) / scale), min(1.0, (middle + reach) / scale))


def difference(hits: int, total: int, other_hits: int, other_total: int, z: float = Z95) -> Interval:
    """Newcombe's hybrid score interval (1998, method 10) for hits/total - other_hits/other_total."""
    ratio = hits / total if total else 0.0
    other = other_hits / other_total if other_total else 0.0
    inside, outside = wilson(hits, total, z), wilson(other_hits, other_total, z)
    gap = ratio - other
    low = gap - sqrt((ratio - inside.low) ** 2 + (outside.high - other) ** 2)
    high = gap + sqrt((inside.high - ratio) ** 2 + (other - outside.low) ** 2)
    return Interval(max(-1.0, low), min(1.0, high))
