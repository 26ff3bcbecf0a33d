"""Telling the sends of repeated transfers apart when their key, or the lack of one, does not.

Each prefill worker sends a transfer's cells once. A part that follows a component's last one, or that
covers cells again, therefore begins the next round. Rounds and attempts are paired in order only when
every worker has as many rounds as there are attempts: else nobody can say which is which.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from pd_tracer_hooks.wire import ComponentDigest, Observation
from tracer.join import intervals
from tracer.join.model import Entry
from tracer.join.order import by_worker


class Rounds(Struct, frozen=True):
    """Sends by worker, and of each worker by round."""

    by_worker: dict[str, list[list[Entry]]]

    @property
    def least(self) -> int:
        """Rounds of the worker that has fewest."""
        return min(map(len, self.by_worker.values()), default=0)

    @property
    def most(self) -> int:
        """Rounds of the worker that has most."""
        return max(map(len, self.by_worker.values()), default=0)

    def of(self, number: int) -> list[Entry]:
        """All workers' sends of one round."""
        return [entry for rounds in self.by_worker.values() for entry in rounds[number]]

    def number_of(self, entry: Entry, *, begins: bool) -> int:
        """The round that a worker's other record belongs to: the next if it ``begins`` one, else the last."""
        rounds = self.by_worker.get(entry.worker.id, [])
        before = [r for r in rounds if r[0].worker.boot == entry.worker.boot]
        begun = sum(1 for r in before if r[0].record.seq < entry.record.seq)
        over = sum(1 for r in before if r[-1].record.seq < entry.record.seq)
        return over if begins else max(0, begun - 1)


def rounds_of(sends: Sequence[Entry]) -> Rounds:
    """Cut ``sends`` (in canonical order) into rounds."""
    return Rounds({worker: _cut(mine) for worker, mine in by_worker(sends).items()})


def _cut(mine: Sequence[Entry]) -> list[list[Entry]]:
    rounds: list[list[Entry]] = []
    seen: dict[str, list[ComponentDigest]] = {}
    boot = ""
    for entry in mine:
        look = entry.record
        if not isinstance(look, Observation):
            continue
        if not rounds or entry.worker.boot != boot or any(_again(c, seen) for c in look.components):
            rounds.append([])
            seen = {}
        boot = entry.worker.boot
        rounds[-1].append(entry)
        for component in look.components:
            seen.setdefault(component.name, []).append(component)
    return rounds


def _again(new: ComponentDigest, seen: dict[str, list[ComponentDigest]]) -> bool:
    """Whether a part cannot be of the same transfer as those before it."""
    layers = set(new.layers)
    pages = intervals.from_runs(new.runs)
    for old in seen.get(new.name, []):
        if not layers.isdisjoint(old.layers):
            if old.last:
                return True
            if intervals.shared(pages, intervals.from_runs(old.runs)):
                return True
    return False
