"""Minute roll-ups and the pairs that are known, in the transaction of what they count."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable

from sqlalchemy import Connection, select

from tracer.store.schema import pairs, rollups
from tracer.store.settle import Count
from tracer.store.upsert import add_to, insert_missing

#: Deployment, prefill server, decode server, component (empty: the rooms of the pair).
PairKey = tuple[str, str, str, str]
_MAX_PAIRS = 100_000


def add_rollups(
    connection: Connection, deltas: Counter[tuple[str, Count]], *, now: float, replica: str
) -> None:
    """Add signed counts, by deployment and what is counted, to the minute of ``now``."""
    minute = int(now // 60)
    rows = [
        {
            "minute": minute,
            "deployment": deployment,
            "prefill_server": count.pair.prefill,
            "decode_server": count.pair.decode,
            "component": count.component,
            "verdict": count.verdict.value,
            "replica": replica,
            "count": amount,
        }
        for (deployment, count), amount in deltas.items()
        if amount
    ]
    add_to(connection, rollups, rows, "count")


def load_pairs(connection: Connection) -> list[PairKey]:
    """Every pair that was ever seen."""
    columns = pairs.c
    query = select(columns.deployment, columns.prefill_server, columns.decode_server, columns.component)
    return [tuple(row) for row in connection.execute(query)]


class PairBook:
    """Keeps the ``pairs`` table. Belongs to the writer's thread."""

    def __init__(self, known: Iterable[PairKey] = ()) -> None:
        self._known = set(known)

    def write(
        self, connection: Connection, seen: set[PairKey], now: float
    ) -> tuple[list[PairKey], Callable[[], None]]:
        """Write the pairs that are new. Returns them, and what to call after the commit."""
        new = sorted(seen - self._known)
        rows = [
            {
                "deployment": deployment,
                "prefill_server": prefill,
                "decode_server": decode,
                "component": component,
                "first_seen": now,
            }
            for deployment, prefill, decode, component in new
        ]
        insert_missing(connection, pairs, rows)

        def committed() -> None:
            if len(self._known) > _MAX_PAIRS:
                self._known.clear()
            self._known.update(new)

        return new, committed
