"""``reordered``: the right bytes in the wrong order, of pages or within a page."""

from __future__ import annotations

from tracer.join.causes.case import Case, Rule
from tracer.join.model import Cause
from tracer.join.places import Place


def within_page(case: Case, place: Place) -> bool:
    """Whether a cell holds its own words in another order."""
    if place.kind != "cell":
        return False
    cell = (place.layers[0], place.first)
    ours = case.sent.cells.order_free.get(cell)
    return ours is not None and ours == case.received.cells.order_free.get(cell)


def _holds(case: Case, place: Place) -> bool:
    return within_page(case, place) or place.key in case.moved


def _lacks(case: Case) -> str:
    if any(place.kind != "cell" for place in case.places):
        return "no page digests of both sides: whether pages are in another order cannot be told"
    if not (case.sent.cells.order_free and case.received.cells.order_free):
        return "no order-free sums of both sides: whether words in a page are in another order cannot be told"
    return ""


RULE = Rule(Cause.reordered, _holds, _lacks)
