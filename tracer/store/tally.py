"""What one flush adds to the process's counters, once it is committed."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import NamedTuple

from tracer.store.settle import Pair


class Series(NamedTuple):
    """Labels of one series: a deployment, a pair in it, and what is special to the family."""

    deployment: str
    pair: Pair
    rest: tuple[str, ...]


@dataclass(slots=True)
class Tally:
    """Counts by series. Added up during a transaction, given to the counters after its commit."""

    rooms: Counter[Series] = field(default_factory=Counter)
    components: Counter[Series] = field(default_factory=Counter)
    causes: Counter[Series] = field(default_factory=Counter)
    coverages: Counter[Series] = field(default_factory=Counter)
    #: (verdict before, verdict after) of rooms.
    revisions: Counter[tuple[str, str]] = field(default_factory=Counter)
    #: (kind of record, what became of it).
    records: Counter[tuple[str, str]] = field(default_factory=Counter)
    #: (deployment, worker, reason).
    drops: Counter[tuple[str, str, str]] = field(default_factory=Counter)
    #: (deployment, prefill, decode, component) seen for the first time by this process.
    pairs: list[tuple[str, str, str, str]] = field(default_factory=list)
    join_delays: list[float] = field(default_factory=list)
    join_faults: int = 0
