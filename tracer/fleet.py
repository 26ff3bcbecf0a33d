"""What can be said of many rooms at once: of how many is the transfer exonerated, and which stay unexplained.

Pure functions on verdicts; :mod:`tracer.store.fleet_query` gives them the rooms of a window.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from enum import Enum

from pd_tracer_hooks.wire import Coverage
from tracer.join.model import Cause, RoomVerdict, Verdict


class Standing(str, Enum):
    """How a room stands before the question whether its transfer did it."""

    #: All that both pools have was compared in full, and is equal.
    exonerated = "exonerated"
    #: Equal, but only head and tail of something were read.
    ends_only = "ends_only"
    #: Equal in full as far as it was traced: layers were left out, a manifest is missing, or a note says that
    #: another look found something else.
    not_all_traced = "not_all_traced"
    #: It differs, and the cause is told.
    explained = "explained"
    #: It differs, and no cause could be told.
    unexplained = "unexplained"
    #: Nothing was compared to its end. The verdict says why.
    not_compared = "not_compared"


def standing(said: RoomVerdict) -> Standing:
    """How one room stands."""
    if said.verdict is Verdict.mismatch:
        told = said.cause is not None and said.cause is not Cause.unexplained
        return Standing.explained if told else Standing.unexplained
    if said.verdict is not Verdict.match:
        return Standing.not_compared
    if said.exonerated:
        return Standing.exonerated
    compared = [part for part in said.components if part.verdict is Verdict.match]
    if any(part.coverage is not Coverage.full for part in compared):
        return Standing.ends_only
    return Standing.not_all_traced


def statement(standings: Counter[Standing]) -> str:
    """One sentence on the fleet: ``the transfer is exonerated in 110 of 112 rooms compared; ...``."""
    compared = sum(count for kind, count in standings.items() if kind is not Standing.not_compared)
    skipped = standings[Standing.not_compared]
    if not compared:
        return "no room was compared" + (f"; {_rooms(skipped)} could not be" if skipped else "")
    clauses = [
        f"the transfer is exonerated in {standings[Standing.exonerated]} of {_rooms(compared)} compared"
    ]
    for kind, words in _CLAUSES:
        if standings[kind]:
            clauses.append(f"{standings[kind]} {words}")
    if skipped:
        clauses.append(f"{skipped} more could not be compared")
    return "; ".join(clauses)


_CLAUSES = (
    (Standing.ends_only, "matched at both ends only"),
    (Standing.not_all_traced, "matched as far as they were traced, which is not all"),
    (Standing.explained, "with damage whose cause is told"),
    (Standing.unexplained, "with damage left unexplained"),
)


def _rooms(count: int) -> str:
    return f"{count} room{'' if count == 1 else 's'}"


def count_standings(verdicts: Iterable[RoomVerdict]) -> Counter[Standing]:
    """How many rooms stand how."""
    return Counter(standing(said) for said in verdicts)
