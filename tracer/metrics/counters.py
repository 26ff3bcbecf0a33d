"""What this process counts. docs/metrics.md explains each for people.

Counters rise only after the commit of what they count, and each collector counts the rooms that it
settled itself, so that ``sum()`` over replicas is right and a restart is an ordinary counter reset.
Never a label for a room or a request.
"""

from __future__ import annotations

import time
from collections.abc import Iterable

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from tracer.join.model import Verdict
from tracer.metrics.families import Family
from tracer.store.tally import Series, Tally

PAIR = ("deployment", "prefill", "decode")
#: A worker's series go away when it has said nothing for this long.
WORKER_EXPIRY_S = 86_400.0
_DELAYS = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 180, 600)
_FLUSHES = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10)


class Counters:
    """The process's counters, in a registry of their own so that several apps can live in one process."""

    def __init__(self, registry: CollectorRegistry) -> None:
        def family(name: str, documentation: str, labels: tuple[str, ...], identity: int) -> Family:
            return Family(name, documentation, labels, registry=registry, identity=identity)

        self.rooms = family(
            "pd_tracer_rooms_settled",
            "Rooms by the verdict that they settled with, and rooms revised into a mismatch.",
            (*PAIR, "verdict"),
            3,
        )
        self.components = family(
            "pd_tracer_components_settled",
            "Components of settled rooms by their verdict, and components revised into a mismatch.",
            (*PAIR, "component", "verdict"),
            4,
        )
        self.causes = family(
            "pd_tracer_mismatch_causes", "Rooms that became a mismatch, by its cause.", (*PAIR, "cause"), 3
        )
        self.coverages = family(
            "pd_tracer_matches_by_coverage",
            "Rooms that settled as a match, by how much of them was compared.",
            (*PAIR, "coverage"),
            3,
        )
        self.revisions = Counter(
            "pd_tracer_verdict_revisions",
            "Verdicts of rooms that changed after they were counted.",
            ("from", "to"),
            registry=registry,
        )
        self.join_delay = Histogram(
            "pd_tracer_join_delay_seconds",
            "From the last send to the last receive of a settled room, both as they reached the collector.",
            buckets=_DELAYS,
            registry=registry,
        )
        self.reports = Counter(
            "pd_tracer_reports",
            "Records that were posted, by their kind and what became of them.",
            ("kind", "outcome"),
            registry=registry,
        )
        self.batches = Counter("pd_tracer_batches", "Batches that were committed.", registry=registry)
        self.refusals = Counter(
            "pd_tracer_refusals", "Records and batches refused, by reason.", ("reason",), registry=registry
        )
        self.drops = family(
            "pd_tracer_worker_drops",
            "Records that a worker says it lost before they could be sent, by reason.",
            ("deployment", "worker", "reason"),
            3,
        )
        self.join_faults = Counter(
            "pd_tracer_join_faults",
            "Rooms that could not be judged; their records are kept.",
            registry=registry,
        )
        self.flush = Histogram(
            "pd_tracer_flush_seconds",
            "Time of one transaction of the writer.",
            buckets=_FLUSHES,
            registry=registry,
        )
        self.queue = Gauge("pd_tracer_queue_batches", "Batches that wait for the writer.", registry=registry)

    def know_pairs(self, pairs: Iterable[tuple[str, str, str, str]]) -> None:
        """Show the mismatch series of known pairs at 0, so that the first mismatch is an increase."""
        mismatch = Verdict.mismatch.value
        for deployment, prefill, decode, component in pairs:
            if component:
                self.components.add((deployment, prefill, decode, component, mismatch), 0)
            else:
                self.rooms.add((deployment, prefill, decode, mismatch), 0)

    def add(self, tally: Tally) -> None:
        """Take over what a committed flush counted."""
        self.know_pairs(tally.pairs)
        for family, counts in (
            (self.rooms, tally.rooms),
            (self.components, tally.components),
            (self.causes, tally.causes),
            (self.coverages, tally.coverages),
        ):
            for series, amount in counts.items():
                family.add(_labels(series), amount)
        for (before, after), amount in tally.revisions.items():
            self.revisions.labels(before, after).inc(amount)
        for (kind, outcome), amount in tally.records.items():
            self.reports.labels(kind, outcome).inc(amount)
        for labels, amount in tally.drops.items():
            self.drops.add(labels, amount)
        for delay in tally.join_delays:
            self.join_delay.observe(delay)
        if tally.join_faults:
            self.join_faults.inc(tally.join_faults)

    def expire(self) -> None:
        """Drop the series of workers that are gone."""
        self.drops.expire(time.time() - WORKER_EXPIRY_S)


def _labels(series: Series) -> tuple[str, ...]:
    return (series.deployment, *series.pair, *series.rest)
