"""What was settled in a window of time, by pair and component, and what is still pending."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

from sqlalchemy import Connection, func, select, text

from tracer.join.model import Verdict
from tracer.store.schema import rollups, rooms

MINUTE_S = 60
#: A newer collector that shares the database may know more of them.
_VERDICTS = {verdict.value: verdict for verdict in Verdict}


class Series(NamedTuple):
    """What a count belongs to. ``component`` is empty for the rooms' own verdicts."""

    deployment: str
    prefill: str
    decode: str
    component: str


@dataclass(frozen=True)
class Tally:
    """How often each verdict was settled. Never negative."""

    counts: dict[Verdict, int]

    @classmethod
    def of(cls, counts: Iterable[tuple[Verdict, int]]) -> Tally:
        """Add up signed counts. A window can begin between a verdict and its revision: that is no -1."""
        total: dict[Verdict, int] = {}
        for verdict, count in counts:
            total[verdict] = total.get(verdict, 0) + count
        return cls({verdict: count for verdict, count in sorted(total.items()) if count > 0})

    @property
    def compared(self) -> int:
        """How many were compared to the end: matches and mismatches."""
        return self.counts.get(Verdict.match, 0) + self.counts.get(Verdict.mismatch, 0)

    @property
    def match_ratio(self) -> float | None:
        """match / (match + mismatch), or None where nothing was compared."""
        return self.counts.get(Verdict.match, 0) / self.compared if self.compared else None

    @property
    def mismatch_ratio(self) -> float | None:
        """mismatch / (match + mismatch), or None where nothing was compared."""
        return self.counts.get(Verdict.mismatch, 0) / self.compared if self.compared else None


@dataclass(frozen=True)
class Pending:
    """Rooms that wait for something."""

    rooms: int
    #: When the one that waits longest was first seen (the collector's clock), or None.
    oldest: float | None


@dataclass(frozen=True)
class Window:
    """Signed counts of whole minutes, summed over replicas."""

    since: float
    until: float
    counts: dict[tuple[Series, Verdict], int]

    def tally(self, *, rooms: bool, **where: str) -> Tally:
        """Add up the rooms' verdicts (or the components'), where the fields of the series are ``where``."""
        return Tally.of(
            (verdict, count)
            for (series, verdict), count in self.counts.items()
            if rooms is (series.component == "")
            and all(getattr(series, field) == value for field, value in where.items())
        )

    def tallies(self) -> dict[Series, Tally]:
        """A tally for each series by itself."""
        found: dict[Series, list[tuple[Verdict, int]]] = {}
        for (series, verdict), count in self.counts.items():
            found.setdefault(series, []).append((verdict, count))
        return {series: Tally.of(counts) for series, counts in sorted(found.items())}


def read_window(connection: Connection, *, now: float, window_s: float, deployment: str | None) -> Window:
    """Counts of the last ``window_s`` seconds, rounded out to whole minutes, which roll-ups are kept by."""
    first = int((now - window_s) // MINUTE_S)
    columns = rollups.c
    series = (columns.deployment, columns.prefill_server, columns.decode_server, columns.component)
    query = (
        select(*series, columns.verdict, func.sum(columns.count))
        .where(columns.minute >= first)
        .group_by(*series, columns.verdict)
    )
    if deployment is not None:
        query = query.where(columns.deployment == deployment)
    counts = {
        (Series(*row[:4]), _VERDICTS[row[4]]): int(row[5])
        for row in connection.execute(query)
        if row[4] in _VERDICTS
    }
    return Window(float(first * MINUTE_S), now, counts)


def read_pending(connection: Connection, deployment: str | None = None) -> dict[str, Pending]:
    """Pending rooms by deployment. A deployment with none is absent."""
    query = (
        select(rooms.c.deployment, func.count(), func.min(rooms.c.first_seen))
        .where(text("verdict = 'pending'"))
        .group_by(rooms.c.deployment)
    )
    if deployment is not None:
        query = query.where(rooms.c.deployment == deployment)
    return {row[0]: Pending(row[1], row[2]) for row in connection.execute(query)}
