"""What the verdicts of a flush add to the counters and roll-ups."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable
from dataclasses import dataclass

from tracer.join.model import RoomVerdict, Verdict
from tracer.store.settle import Change, Count, Facts, change, coverage_of, pair_of
from tracer.store.tally import Series, Tally


@dataclass(slots=True)
class _Alike:
    """Rooms that are counted alike."""

    deployment: str
    #: One of theirs.
    verdict: RoomVerdict
    facts: Facts
    rooms: int = 0


class FirstCounts:
    """Rooms that are counted for the first time: nearly all. Those that are alike are added up once."""

    def __init__(self) -> None:
        self._groups: dict[Hashable, _Alike] = {}

    def add(self, deployment: str, verdict: RoomVerdict, facts: Facts) -> None:
        """Take in a room that was never counted, or that begins a new attempt."""
        # The id is as good as the facts, since the group keeps them.
        key = (deployment, pair_of(verdict), verdict.cause, id(facts))
        group = self._groups.get(key)
        if group is None:
            group = self._groups[key] = _Alike(deployment, verdict, facts)
        group.rooms += 1

    def add_to(self, deltas: Counter[tuple[str, Count]], tally: Tally) -> None:
        """Add everything to the roll-ups' ``deltas`` and to ``tally``."""
        for group in self._groups.values():
            changed = change(None, group.verdict, counted=False)
            for count, amount in changed.deltas.items():
                deltas[group.deployment, count] += amount * group.rooms
            count_change(group.deployment, group.verdict, changed, tally, rooms=group.rooms)


def room_counted(changed: Change) -> bool:
    """Whether a change counts the room itself for the first time."""
    return any(not count.component for count in changed.first)


def count_change(
    deployment: str, verdict: RoomVerdict, changed: Change, tally: Tally, *, rooms: int = 1
) -> None:
    """Add what settled, and what was revised into a mismatch: an alert must see that too."""
    risen = list(changed.first)
    for revision in changed.revisions:
        if not revision.component:
            tally.revisions[revision.before.value, revision.after.value] += rooms
        if revision.after is Verdict.mismatch:
            risen.append(Count(revision.pair, revision.component, revision.after))
    for count in risen:
        if count.component:
            tally.components[Series(deployment, count.pair, (count.component, count.verdict.value))] += rooms
            continue
        tally.rooms[Series(deployment, count.pair, (count.verdict.value,))] += rooms
        if count.verdict is Verdict.mismatch and verdict.cause is not None:
            tally.causes[Series(deployment, count.pair, (verdict.cause.value,))] += rooms
    if room_counted(changed):
        coverage = coverage_of(verdict)
        if verdict.verdict is Verdict.match and coverage is not None:
            tally.coverages[Series(deployment, pair_of(verdict), (coverage.value,))] += rooms
