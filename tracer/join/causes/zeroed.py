"""``zeroed``: the pages hold zeros."""

from __future__ import annotations

from tracer.join.causes.case import Case, Rule
from tracer.join.model import Cause
from tracer.join.places import Place, same


def holds_zeros(case: Case, place: Place) -> bool:
    """Whether ``receive`` found nothing but zeros at a place."""
    return same(case.zeros, case.received, place) is True


def _lacks(case: Case) -> str:
    if not case.zeros.known:
        return "no manifest says how the pages are laid out: zeros cannot be recognised"
    if case.zeros.too_large and any(place.kind != "cell" for place in case.places):
        return "too many cells to sum up zeros for: they are recognised only with page digests"
    return ""


#: A fresh pool is zeros too, and a late write has not reached it yet.
RULE = Rule(Cause.zeroed, holds_zeros, _lacks, rivals=(Cause.late, Cause.stale))
