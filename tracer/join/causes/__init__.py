"""Why two sides differ: rules that are asked in order at every place; the first that holds names its cause.

A new cause is a new file with a :class:`~tracer.join.causes.case.Rule`, added to :data:`RULES` where it
belongs in the order. ``overwritten`` is no rule here: it is damage that came after ``receive``, see
:mod:`tracer.join.explained`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from msgspec import Struct

from tracer.join.causes import cross_room, late, reordered, sent_early, source_changed, stale, zeroed
from tracer.join.causes.case import Case, Rule
from tracer.join.model import Cause
from tracer.join.places import Place

RULES: tuple[Rule, ...] = (
    sent_early.RULE,
    late.RULE,
    source_changed.RULE,
    cross_room.RULE,
    stale.RULE,
    zeroed.RULE,
    reordered.RULE,
)

#: Causes of which a run may end in a page that is right only in part.
_WITH_BOUNDARY = frozenset({Cause.stale, Cause.zeroed})


class Classified(Struct, frozen=True):
    """What the rules said of the places of a case."""

    #: The first cause in order that any place has.
    cause: Cause
    #: Place by place.
    causes: list[Cause]
    #: Places that no rule explains by themselves: they end a run of stale or zeroed ones.
    boundary: list[Place]
    #: What the rules that might have said otherwise lacked.
    missing: list[str]

    @property
    def counts(self) -> dict[str, int]:
        """Places by cause, in the order of the rules."""
        counted = Counter(self.causes)
        return {cause.value: counted[cause] for cause in Cause if counted[cause]}

    def of(self, places: Sequence[Place]) -> list[Place]:
        """Those of the case's places that have the cause."""
        return [place for place, cause in zip(places, self.causes, strict=True) if cause is self.cause]


def classify(case: Case, rules: Sequence[Rule] = RULES) -> Classified:
    """Ask the rules about every place, and gather what they say. A case has at least one place."""
    causes = [
        next((rule.cause for rule in rules if rule.holds(case, place)), Cause.unexplained)
        for place in case.places
    ]
    boundary = _boundary(case.places, causes)
    order = [*(rule.cause for rule in rules), Cause.unexplained]
    cause = min(causes, key=order.index)
    return Classified(cause, causes, boundary, _missing(case, cause, rules))


def _missing(case: Case, cause: Cause, rules: Sequence[Rule]) -> list[str]:
    rivals = {rule.cause: rule.rivals for rule in rules}.get(cause)
    asked = [rule for rule in rules if rivals is None or rule.cause in rivals]
    return [text for rule in asked if (text := rule.lacks(case))]


def _boundary(places: Sequence[Place], causes: list[Cause]) -> list[Place]:
    """Give unexplained places that touch a run of stale or zeroed ones the run's cause, and return them."""
    starts: dict[tuple[tuple[int, ...], int], Cause] = {}
    ends: dict[tuple[tuple[int, ...], int], Cause] = {}
    for place, cause in zip(places, causes, strict=True):
        if cause in _WITH_BOUNDARY:
            starts[place.layers, place.first] = cause
            ends[place.layers, place.end] = cause
    found = []
    for index, place in enumerate(places):
        if causes[index] is Cause.unexplained and place.kind in ("cell", "bucket"):
            run = starts.get((place.layers, place.end)) or ends.get((place.layers, place.first))
            if run is not None:
                causes[index] = run
                found.append(place)
    return found
