"""Gauges that are read from the store when Prometheus asks, and so are the same on every replica.

Nothing is kept in step by hand: what the store says at the scrape is what is shown. Where it does not
answer, ``pd_tracer_store_readable`` is 0 and the others are absent; counters are exported all the same.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping

import msgspec
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector
from sqlalchemy.exc import SQLAlchemyError

from tracer.metrics.counters import PAIR, WORKER_EXPIRY_S
from tracer.metrics.families import MAX_SERIES, OTHER, Labels, label
from tracer.store.database import Database
from tracer.store.reading import TooSlowError, reading
from tracer.store.summary_query import Pending, Series, Tally, Window, read_pending, read_window
from tracer.store.workers_query import WorkerRow, read_workers

#: A scrape has 10 s by Prometheus' default; the counters are to arrive in any case.
SCRAPE_LIMIT_S = 4.0
WORKER = ("deployment", "side", "server", "worker")


class StoreGauges(Collector):
    """Ratios over the last ``window_s`` seconds, pending rooms, and the age of each worker's last report."""

    def __init__(self, database: Database, window_s: float, clock: Callable[[], float] = time.time) -> None:
        self._database = database
        self._window_s = window_s
        self._clock = clock

    def describe(self) -> Iterable[GaugeMetricFamily]:
        """The families without a value, so that registering reads nothing."""
        return [*_families(self._window_s).values(), _readable(None)]

    def collect(self) -> Iterator[GaugeMetricFamily]:
        """Read the store."""
        now = self._clock()
        try:
            with reading(self._database, SCRAPE_LIMIT_S) as connection:
                window = read_window(connection, now=now, window_s=self._window_s, deployment=None)
                pending = read_pending(connection)
                workers = read_workers(connection, seen_since=now - WORKER_EXPIRY_S, manifests=False)
        except (SQLAlchemyError, TooSlowError, msgspec.DecodeError):
            yield _readable(False)
            return
        yield _readable(True)
        families = _families(self._window_s)
        _fill_ratios(families, window)
        _fill_pending(families, pending, {row.identity.deployment for row in workers}, now)
        _fill_ages(families, workers, now)
        yield from families.values()


def _readable(value: bool | None) -> GaugeMetricFamily:
    return GaugeMetricFamily(
        "pd_tracer_store_readable",
        "1 if this scrape could read the store; at 0 the gauges that are read from it are absent.",
        value=None if value is None else float(value),
    )


def _families(window_s: float) -> dict[str, GaugeMetricFamily]:
    over = f"over the last {window_s:g} s; absent where nothing was compared."
    component = (*PAIR, "component")
    families = (
        ("pd_tracer_match_ratio", f"Rooms: match / (match + mismatch) {over}", PAIR),
        ("pd_tracer_mismatch_ratio", f"Rooms: mismatch / (match + mismatch) {over}", PAIR),
        ("pd_tracer_component_match_ratio", f"Components: match / (match + mismatch) {over}", component),
        (
            "pd_tracer_component_mismatch_ratio",
            f"Components: mismatch / (match + mismatch) {over}",
            component,
        ),
        ("pd_tracer_rooms_pending", "Rooms whose verdict is pending.", ("deployment",)),
        (
            "pd_tracer_oldest_pending_age_seconds",
            "Age of the room that has been pending longest; 0 where none is.",
            ("deployment",),
        ),
        (
            "pd_tracer_worker_last_report_age_seconds",
            "Time since a worker's last report. Gone a day after it.",
            WORKER,
        ),
    )
    return {name: GaugeMetricFamily(name, text, labels=labels) for name, text, labels in families}


def _fill_ratios(families: Mapping[str, GaugeMetricFamily], window: Window) -> None:
    for prefix, rooms in (("pd_tracer", True), ("pd_tracer_component", False)):
        for labels, tally in _bounded_tallies(window, rooms=rooms).items():
            if tally.match_ratio is None or tally.mismatch_ratio is None:
                continue
            families[f"{prefix}_match_ratio"].add_metric(labels, tally.match_ratio)
            families[f"{prefix}_mismatch_ratio"].add_metric(labels, tally.mismatch_ratio)


def _bounded_tallies(window: Window, *, rooms: bool) -> dict[Labels, Tally]:
    """A tally for each series by what is shown of it: two long names can be the same when cut."""
    mine = {series: tally for series, tally in window.tallies().items() if rooms is (series.component == "")}
    busiest = sorted(mine, key=lambda series: mine[series].compared, reverse=True)
    shown: dict[Labels, list[Tally]] = {}
    for index, series in enumerate(busiest):
        labels = _shown(series, rooms=rooms) if index < MAX_SERIES else (OTHER,) * (3 if rooms else 4)
        shown.setdefault(labels, []).append(mine[series])
    return {
        labels: Tally.of(item for tally in tallies for item in tally.counts.items())
        for labels, tallies in shown.items()
    }


def _shown(series: Series, *, rooms: bool) -> Labels:
    return tuple(map(label, series[:3] if rooms else series))


def _fill_pending(
    families: Mapping[str, GaugeMetricFamily],
    pending: Mapping[str, Pending],
    deployments: Iterable[str],
    now: float,
) -> None:
    counts: dict[str, tuple[int, float]] = {}
    for name in sorted({*pending, *deployments}):
        waiting = pending.get(name, Pending(0, None))
        age = max(0.0, now - waiting.oldest) if waiting.oldest is not None else 0.0
        shown = label(name) if len(counts) < MAX_SERIES else OTHER
        rooms, oldest = counts.get(shown, (0, 0.0))
        counts[shown] = rooms + waiting.rooms, max(oldest, age)
    for shown, (rooms, oldest) in counts.items():
        families["pd_tracer_rooms_pending"].add_metric((shown,), rooms)
        families["pd_tracer_oldest_pending_age_seconds"].add_metric((shown,), oldest)


def _fill_ages(families: Mapping[str, GaugeMetricFamily], workers: Iterable[WorkerRow], now: float) -> None:
    ages: dict[Labels, float] = {}
    for row in workers:
        who = row.identity
        labels = tuple(map(label, (who.deployment, who.side.value, who.server, who.id)))
        if len(ages) >= MAX_SERIES and labels not in ages:
            labels = (OTHER,) * len(WORKER)
        ages[labels] = max(ages.get(labels, 0.0), now - row.last_seen)
    for labels, age in ages.items():
        families["pd_tracer_worker_last_report_age_seconds"].add_metric(labels, age)
