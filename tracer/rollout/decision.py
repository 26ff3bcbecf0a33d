"""Pass, fail, or too little to say: a pure function of what was counted."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from math import ceil, floor

from tracer.rollout.bounds import lower_bound, upper_bound


class Outcome(str, Enum):
    """What a check comes to."""

    passed = "pass"
    failed = "fail"
    too_little = "too_little_data"


@dataclass(frozen=True)
class Demand:
    """What a rollout must show."""

    max_mismatch_ratio: float
    min_rooms: int
    min_coverage: float


@dataclass(frozen=True)
class Counted:
    """What was seen since it began."""

    match: int
    mismatch: int
    #: Rooms that should have been compared, or None where nobody can say.
    eligible: int | None

    @property
    def compared(self) -> int:
        """Rooms compared to the end."""
        return self.match + self.mismatch

    @property
    def ratio(self) -> float | None:
        """mismatch / compared, or None where nothing was compared."""
        return self.mismatch / self.compared if self.compared else None

    @property
    def upper(self) -> float:
        """The 95 % upper bound of the mismatch ratio. 1 where nothing was compared."""
        return upper_bound(self.mismatch, self.compared)

    @property
    def lower(self) -> float:
        """The 95 % lower bound."""
        return lower_bound(self.mismatch, self.compared)

    @property
    def coverage(self) -> float | None:
        """compared / eligible, or None where that is not known or nothing was eligible."""
        return min(1.0, self.compared / self.eligible) if self.eligible else None


@dataclass(frozen=True)
class Decision:
    """What came out, and why, a sentence each."""

    outcome: Outcome
    reasons: tuple[str, ...]


def decide(counted: Counted, demand: Demand) -> Decision:
    """Hold ``counted`` against ``demand``.

    A ratio over the limit fails, however few rooms there are: waiting would not undo a mismatch. It passes
    only if the 95 % upper bound keeps the limit too, so that luck with few rooms is no pass, and never on no
    data. Everything between is too little data.
    """
    limit = demand.max_mismatch_ratio
    ratio = counted.ratio
    if ratio is None:
        return Decision(Outcome.too_little, ("nothing was compared",))
    if ratio > limit:
        return Decision(
            Outcome.failed,
            (f"{counted.mismatch} of {counted.compared} rooms mismatch, {_up(ratio)}: over {limit:.4%}",),
        )
    lacking = []
    if counted.compared < demand.min_rooms:
        lacking.append(f"{counted.compared} rooms were compared: at least {demand.min_rooms} are wanted")
    coverage = counted.coverage
    if coverage is None and demand.min_coverage > 0:
        lacking.append("nobody said how many rooms there were, so the coverage is not known")
    elif coverage is not None and coverage < demand.min_coverage:
        lacking.append(
            f"{counted.compared} of {counted.eligible} rooms were compared, {_down(coverage)}:"
            f" at least {demand.min_coverage:.2%} are wanted"
        )
    if counted.upper > limit:
        lacking.append(
            f"the true ratio may be up to {_up(counted.upper)} (95 %), over {limit:.4%}:"
            f" {rooms_needed(counted.mismatch, limit)} rooms without another mismatch would settle it"
        )
    if lacking:
        return Decision(Outcome.too_little, tuple(lacking))
    return Decision(
        Outcome.passed,
        (
            f"{counted.mismatch} of {counted.compared} rooms mismatch; the true ratio is at most"
            f" {_up(counted.upper)} (95 %), within {limit:.4%}",
        ),
    )


def _up(ratio: float) -> str:
    """As a percentage, never less than it is: what is over a limit must not look equal to it."""
    return f"{ceil(ratio * 1e6) / 1e4:.4f}%"


def _down(ratio: float) -> str:
    """As a percentage, never more than it is."""
    return f"{floor(ratio * 1e4) / 1e2:.2f}%"


#: More rooms than anybody would wait for.
_NEVER = 1 << 40


def rooms_needed(hits: int, limit: float) -> int:
    """The fewest rooms with ``hits`` mismatches among them whose 95 % upper bound keeps ``limit``."""
    low, high = hits, max(2 * hits, 4)
    while upper_bound(hits, high) > limit and high < _NEVER:
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if upper_bound(hits, middle) > limit else (low, middle)
    return high
