"""``cross_room``: another room's bytes were written into these pages."""

from __future__ import annotations

from tracer.join.causes import stale
from tracer.join.causes.case import Case, Rule
from tracer.join.model import Cause
from tracer.join.places import Place


def _holds(case: Case, place: Place) -> bool:
    # What lay there before the pages were handed out was not written into them: that is stale, with the
    # room that left it named.
    return bool(case.givers(place)) and not stale.was_there_before(case, place)


def _lacks(case: Case) -> str:
    if not case.donors:
        return "no other room's page digests: whether the bytes are another room's cannot be told"
    if all(not case.givers(place) for place in case.places):
        return (
            "of the rooms that held these pages no page digests are here: whose the bytes are cannot be told"
        )
    return ""


RULE = Rule(Cause.cross_room, _holds, _lacks, rivals=(Cause.stale,))
