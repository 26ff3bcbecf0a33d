"""``source_changed``: prefill's pages did not stay as they were while they were read by the transfer."""

from __future__ import annotations

from tracer.join.causes.case import Case, Rule
from tracer.join.model import Cause
from tracer.join.places import Place, same


def _holds(case: Case, place: Place) -> bool:
    release = case.looks.release
    if release is None:
        return False
    return (
        same(release.values, case.received, place) is True or same(release.values, case.sent, place) is False
    )


def _lacks(case: Case) -> str:
    release = case.looks.release
    if release is None:
        return "no release observation: whether prefill's pages changed during the transfer cannot be told"
    if any(same(release.values, case.sent, place) is None for place in case.places):
        return "release did not read all of the places: whether prefill's pages changed there cannot be told"
    return ""


#: A changed source and bytes that came late both leave a receive that is not what was sent.
RULE = Rule(Cause.source_changed, _holds, _lacks, rivals=(Cause.late,))
