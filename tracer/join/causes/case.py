"""What a rule is given, and what a rule is."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property

from msgspec import Struct

from tracer.join.looks import Look, Looks
from tracer.join.model import Cause, Donor, How
from tracer.join.places import Place, same
from tracer.join.values import Values
from tracer.join.zeros import Zeros


class Case:
    """One component that differs: all looks at it, the places in question, and what else is known."""

    def __init__(
        self, looks: Looks, places: Sequence[Place], zeros: Zeros, donors: Sequence[Donor] = ()
    ) -> None:
        self.looks = looks
        self.places = places
        self.zeros = zeros
        self.donors = donors

    @property
    def sent(self) -> Values:
        """What should have arrived."""
        return self.looks.sent.values

    @property
    def received(self) -> Values:
        """What had arrived when the engine said that all had."""
        return self.looks.received.values

    def right_at(self, look: Look, place: Place) -> bool | None:
        """Whether a later look found at a place what should have arrived."""
        return same(look.values, self.sent, place)

    @cached_property
    def moved(self) -> frozenset[object]:
        """Keys of the cells that hold what others, which differ too, should hold."""
        cells = [place for place in self.places if place.kind == "cell"]
        wanted = [self.sent.get(place.key) for place in cells]
        counts: dict[object, int] = {}
        for value in wanted:
            counts[value] = counts.get(value, 0) + 1
        moved = set()
        for place in cells:
            value = self.received.get(place.key)
            if counts.get(value, 0) > 0:
                counts[value] -= 1
                moved.add(place.key)
        return frozenset(moved)

    def givers(self, place: Place) -> list[Donor]:
        """Donors whose digests were found at a place."""
        return [donor for donor in self.donors if donor.how is How.digests and _covers(donor, place)]


class Rule(Struct, frozen=True):
    """One cause: how it is recognised at a place, and what it takes to ask."""

    cause: Cause
    holds: Callable[[Case, Place], bool]
    #: What was not observed, so that the rule could not be asked or not in full; empty if nothing.
    lacks: Callable[[Case], str]
    #: Causes earlier in the order that leave the same evidence: what those lack is said with this one.
    rivals: tuple[Cause, ...] = ()


def _covers(donor: Donor, place: Place) -> bool:
    if donor.layers and not (place.layers and set(place.layers) <= set(donor.layers)):
        return False
    return any(first <= place.first and place.end <= first + count for first, count in donor.page_runs)
