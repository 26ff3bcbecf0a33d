"""Ranks factors by how many mismatches they explain.

A factor explains what its rooms have in excess: their mismatches, less those that as many rooms would have
had at the ratio found outside. That favours neither the rare factor with a high ratio by chance nor the
large one that is merely everywhere. What this does not do: combine factors, or tell a cause from
what always comes with it (a server that has one worker, say); of such twins the narrower name is shown
and the others are listed with it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from tracer.culprits.intervals import Interval, difference, wilson

#: Kinds of factor, the most telling first: of twins that hold the same rooms the earlier is named.
KINDS = (
    "pair",
    "prefill_nic",
    "decode_nic",
    "prefill_gpu",
    "decode_gpu",
    "prefill_worker",
    "decode_worker",
    "prefill_node",
    "decode_node",
    "node",
    "prefill_server",
    "decode_server",
    "prefill_version",
    "decode_version",
    "prefill_config",
    "decode_config",
    "run",
    "component",
)
_RANK = {kind: number for number, kind in enumerate(KINDS)}


@dataclass(frozen=True, order=True)
class Factor:
    """Something that rooms have in common: a kind and its value."""

    kind: str
    value: str


@dataclass(frozen=True)
class Case:
    """One compared thing (a room, or a component of one): its factors, and whether it was a mismatch."""

    factors: frozenset[Factor]
    mismatch: bool


@dataclass(frozen=True)
class Culprit:
    """How a factor's cases fared, against all others. Ratios come with 95 % intervals."""

    factor: Factor
    mismatches: int
    compared: int
    other_mismatches: int
    other_compared: int
    inside: Interval
    outside: Interval
    #: Of the difference between both ratios. Above 0 as a whole: more than chance.
    gap: Interval
    #: Mismatches in excess of what the ratio outside would have given.
    explained: float
    #: Other factors that hold the very same cases, so that nothing tells them apart.
    twins: tuple[Factor, ...] = ()

    @property
    def ratio(self) -> float:
        """Mismatch ratio of the factor's cases."""
        return self.mismatches / self.compared

    @property
    def other_ratio(self) -> float:
        """Mismatch ratio of all other cases; 0 if there are none."""
        return self.other_mismatches / self.other_compared if self.other_compared else 0.0

    @property
    def stands_out(self) -> bool:
        """Whether there are others to compare with, and the difference is more than chance."""
        return self.other_compared > 0 and self.gap.low > 0


def rank(cases: Iterable[Case]) -> list[Culprit]:
    """Factors with mismatches, those that explain most first.

    A factor that every case has is left out, since there is nothing to compare it with.
    """
    counts: dict[Factor, list[int]] = {}
    signatures: dict[Factor, int] = {}
    compared = mismatches = 0
    for number, case in enumerate(cases):
        compared += 1
        mismatches += case.mismatch
        mark = hash((number, "case"))
        for factor in case.factors:
            count = counts.setdefault(factor, [0, 0])
            count[0] += case.mismatch
            count[1] += 1
            signatures[factor] = signatures.get(factor, 0) ^ mark
    twins = _twins(counts, signatures)
    culprits = [
        _culprit(factor, count, (mismatches, compared), twins[factor])
        for factor, count in counts.items()
        if count[0] and count[1] < compared and twins[factor][0] == factor
    ]
    return sorted(culprits, key=lambda c: (not c.stands_out, -c.explained, _order(c.factor)))


def _twins(
    counts: Mapping[Factor, Sequence[int]], signatures: Mapping[Factor, int]
) -> dict[Factor, list[Factor]]:
    """For each factor, all that hold the same cases, the one to be named first."""
    groups: dict[tuple[int, int, int], list[Factor]] = {}
    for factor, (hits, total) in counts.items():
        groups.setdefault((hits, total, signatures[factor]), []).append(factor)
    return {factor: sorted(group, key=_order) for group in groups.values() for factor in group}


def _order(factor: Factor) -> tuple[int, str, str]:
    return _RANK.get(factor.kind, len(KINDS)), factor.kind, factor.value


def _culprit(
    factor: Factor, count: Sequence[int], everything: tuple[int, int], twins: Sequence[Factor]
) -> Culprit:
    """``count`` and ``everything`` are (mismatches, compared) of the factor's cases and of all."""
    hits, total = count
    other_hits, other_total = everything[0] - hits, everything[1] - total
    other_ratio = other_hits / other_total if other_total else 0.0
    return Culprit(
        factor=factor,
        mismatches=hits,
        compared=total,
        other_mismatches=other_hits,
        other_compared=other_total,
        inside=wilson(hits, total),
        outside=wilson(other_hits, other_total),
        gap=difference(hits, total, other_hits, other_total),
        explained=hits - total * other_ratio,
        twins=tuple(twin for twin in twins if twin != factor),
    )


def sentence(culprits: Sequence[Culprit], *, mismatches: int, compared: int, what: str = "rooms") -> str:
    """What the ranking comes to, for a person."""
    if not compared:
        return f"no {what} were compared in this window"
    if not mismatches:
        return f"no mismatch among {compared} {what} compared"
    if not culprits or not culprits[0].stands_out:
        return (
            f"no single factor stands out: {mismatches} of {compared} {what} mismatch, "
            "and no factor has more of them than chance may give it"
        )
    first = culprits[0]
    named = f"{first.factor.kind.replace('_', ' ')} {first.factor.value}"
    text = (
        f"{named} has {first.mismatches} of {mismatches} mismatches: "
        f"{_percent(first.ratio)} of its {first.compared} {what} "
        f"(95 %: {_percent(first.inside.low)} to {_percent(first.inside.high)}), "
        f"against {_percent(first.other_ratio)} of {first.other_compared} others"
    )
    if first.twins:
        same = ", ".join(f"{twin.kind.replace('_', ' ')} {twin.value}" for twin in first.twins[:5])
        text += f"; the same {what} have {same}"
    return text


def _percent(ratio: float) -> str:
    return f"{100 * ratio:.2f} %"
