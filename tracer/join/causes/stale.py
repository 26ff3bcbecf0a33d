"""``stale``: the pages still hold what they held before they were handed out."""

from __future__ import annotations

from tracer.join.causes.case import Case, Rule
from tracer.join.model import Cause
from tracer.join.places import Place, same


def was_there_before(case: Case, place: Place) -> bool:
    """Whether a place still holds what was read there before the pages were handed out."""
    return case.looks.allocate_in_time and is_unchanged(case, place)


def is_unchanged(case: Case, place: Place) -> bool:
    """Whether a place holds what ``allocate`` read, whenever that was."""
    allocate = case.looks.allocate
    return allocate is not None and same(allocate.values, case.received, place) is True


def _lacks(case: Case) -> str:
    allocate = case.looks.allocate
    if allocate is None:
        return "no allocate observation: stale cannot be told from corrupt"
    if not case.looks.allocate_in_time:
        if any(is_unchanged(case, place) for place in case.places):
            return (
                "allocate was read after the pages were handed out, and receive found the same: "
                "stale or damaged, which of them cannot be told"
            )
        return ""
    if any(same(allocate.values, case.received, place) is None for place in case.places):
        return "allocate did not read all of the places: stale cannot be told from corrupt at every one"
    return ""


#: What is not there yet looks like what never comes, until somebody looks again.
RULE = Rule(Cause.stale, was_there_before, _lacks, rivals=(Cause.late,))
