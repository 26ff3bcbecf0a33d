"""``late``: what should have been there when the engine said so came after that."""

from __future__ import annotations

from tracer.join.causes.case import Case, Rule
from tracer.join.model import Cause
from tracer.join.places import Place


def _holds(case: Case, place: Place) -> bool:
    return any(case.right_at(look, place) is True for look in case.looks.later)


def _lacks(case: Case) -> str:
    if not case.looks.later:
        return "no recheck or admit observation: whether the bytes came later cannot be told"
    if any(all(case.right_at(look, place) is None for look in case.looks.later) for place in case.places):
        return (
            "no later look read all of the places: whether the bytes came later cannot be told of every one"
        )
    return ""


RULE = Rule(Cause.late, _holds, _lacks)
