"""``sent_early``: the bytes arrived as they were sent, and were sent before they had been computed."""

from __future__ import annotations

from tracer.join.causes.case import Case, Rule
from tracer.join.model import Cause
from tracer.join.places import Place, same


def _holds(case: Case, place: Place) -> bool:
    at_once = case.looks.sent_at_once
    return at_once is not None and same(at_once.values, case.received, place) is True


def _lacks(case: Case) -> str:
    if case.looks.sent_at_once is not None:
        return ""
    return "no second look at send: whether the pages were sent before they were computed cannot be told"


RULE = Rule(Cause.sent_early, _holds, _lacks)
