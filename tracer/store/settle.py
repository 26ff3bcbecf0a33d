"""How a room's verdict is counted: once when it settles, and as a revision after that. Pure functions.

A room counts from the moment its verdict is more than ``pending``: a mismatch is told while other parts
are still on their way. Its components count from the same moment, each once it is more than pending.
A room that is used again counts again: its new attempt is another transfer, and the verdict of the
earlier one stands.
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

from pd_tracer_hooks.wire import Coverage
from tracer.join.model import ComponentVerdict, RoomVerdict, Verdict


class Pair(NamedTuple):
    """Prefill server and decode server. A side that nobody named is empty."""

    prefill: str
    decode: str


class Count(NamedTuple):
    """What a roll-up counts. ``component`` is empty for the room itself."""

    pair: Pair
    component: str
    verdict: Verdict


class Revision(NamedTuple):
    """A verdict that changed after it was counted. ``component`` is empty for the room itself."""

    pair: Pair
    component: str
    before: Verdict
    after: Verdict


class Change(NamedTuple):
    """What a new verdict changes in the counts."""

    #: Signed: a revision takes one away and adds another.
    deltas: dict[Count, int]
    #: Counted for the first time.
    first: list[Count]
    revisions: list[Revision]


#: Neither was anything counted, nor is it now; or nothing changed.
NOTHING = Change({}, [], [])


def pair_of(verdict: RoomVerdict) -> Pair:
    """The pair of the latest attempt."""
    if not verdict.attempts:
        return Pair("", "")
    latest = verdict.attempts[-1]
    return Pair(latest.prefill_server, latest.decode_server)


def counts_of(verdict: RoomVerdict | None) -> dict[str, Verdict]:
    """What of a verdict is counted, by component (empty: the room). Nothing while it is pending."""
    if verdict is None or verdict.verdict is Verdict.pending:
        return {}
    counts: dict[str, Verdict] = {
        part.component: part.verdict for part in verdict.components if part.verdict is not Verdict.pending
    }
    counts[""] = verdict.verdict
    return counts


def latest_attempt(verdict: RoomVerdict | None) -> int:
    """Number of the latest attempt, or 0 where there is none."""
    return verdict.attempts[-1].number if verdict is not None and verdict.attempts else 0


def change(before: RoomVerdict | None, after: RoomVerdict, *, counted: bool) -> Change:
    """What changes in the counts when ``after`` follows ``before``.

    ``counted``: whether the attempt that ``before`` speaks of was counted earlier, also if it has
    become pending again since.
    """
    same_attempt = latest_attempt(before) == latest_attempt(after)
    was_pending = before is None or before.verdict is Verdict.pending or not same_attempt
    if was_pending and after.verdict is Verdict.pending:
        return NOTHING
    old = counts_of(before) if same_attempt else {}
    new = counts_of(after)
    counted = counted and same_attempt
    pair = pair_of(after)
    old_pair = pair_of(before) if before is not None else pair
    if old == new and old_pair == pair:
        return NOTHING
    deltas = {Count(old_pair, component, verdict): -1 for component, verdict in old.items()}
    first: list[Count] = []
    for component, verdict in new.items():
        count = Count(pair, component, verdict)
        deltas[count] = deltas.get(count, 0) + 1
        if component not in old and not (counted and not old):
            first.append(count)
    revisions = _revisions(pair, old, new) if counted else []
    return Change({count: amount for count, amount in deltas.items() if amount}, first, revisions)


def _revisions(pair: Pair, old: dict[str, Verdict], new: dict[str, Verdict]) -> list[Revision]:
    pending = Verdict.pending
    # A room that becomes pending again, or settles again after that, is revised with all its components.
    # Otherwise a component that is only in ``new`` counts for the first time.
    components = old if old and new else {**old, **new}
    return [
        Revision(pair, component, old.get(component, pending), new.get(component, pending))
        for component in components
        if old.get(component, pending) is not new.get(component, pending)
    ]


class Facts(NamedTuple):
    """What rows and counts want of a verdict. Thousands of rooms share one: it is not to be changed."""

    #: As :func:`counts_of`.
    counts: dict[str, Verdict]
    #: The verdict and the least coverage as the columns have them.
    verdict: str
    coverage: str
    #: As :func:`worst_components`.
    worst: str
    #: Names of the components, and the empty one for the room.
    components: tuple[str, ...]


def facts_of(verdict: RoomVerdict) -> Facts:
    """The facts of a verdict; of those whose components have the same verdicts they are one object."""
    return _facts(
        verdict.verdict,
        tuple([(part.component, part.verdict, part.coverage) for part in verdict.components]),
    )


@lru_cache(maxsize=4096)
def _facts(verdict: Verdict, parts: tuple[tuple[str, Verdict, Coverage | None], ...]) -> Facts:
    components = [
        ComponentVerdict(component=name, verdict=part, coverage=coverage) for name, part, coverage in parts
    ]
    said = RoomVerdict(verdict=verdict, settled=True, components=components)
    coverage = coverage_of(said)
    return Facts(
        counts_of(said),
        verdict.value,
        coverage.value if coverage is not None else "",
        worst_components(said),
        ("", *(part.component for part in components)),
    )


def coverage_of(verdict: RoomVerdict) -> Coverage | None:
    """The least coverage of what was compared, or None where nothing was."""
    found = {part.coverage for part in verdict.components if part.coverage is not None}
    if not found:
        return None
    return Coverage.ends if Coverage.ends in found else Coverage.full


def worst_components(verdict: RoomVerdict) -> str:
    """The components that have the room's verdict, each between commas; empty if there are none."""
    names = [part.component for part in verdict.components if part.verdict is verdict.verdict]
    return f",{','.join(names)}," if names else ""
