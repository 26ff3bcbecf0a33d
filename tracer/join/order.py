"""One order of a room's entries that does not depend on the order in which they are handed in.

Records of one life of a worker are in the order of their ``seq``. Between workers only arrival at the
collector is known; the clocks of two hosts are never compared.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from pd_tracer_hooks.wire import Detail, Event, encode
from tracer.join.model import AnyEntry, Entry

#: (arrival, worker, boot, seq): a total order of openings and of sends.
Moment = tuple[float, str, str, int]

Identity = tuple[str, str, int, str, int]


def canonical(entries: Iterable[AnyEntry]) -> list[AnyEntry]:
    """``entries`` by arrival, each record once. Of two with one identity the first to arrive stays."""
    kept: dict[Identity, AnyEntry] = {}
    for entry in entries:
        identity = _identity(entry)
        other = kept.get(identity)
        if other is None or (other != entry and _before(entry, other)):
            kept[identity] = entry
    return [kept[identity] for identity in sorted(kept, key=lambda i: (kept[i].received, i))]


def _identity(entry: AnyEntry) -> Identity:
    record, worker = entry.record, entry.worker
    if isinstance(record, Event):
        return worker.id, worker.boot, record.seq, record.kind.value, -1
    if isinstance(record, Detail):
        return worker.id, worker.boot, record.seq, f"detail:{record.component}", record.look
    return worker.id, worker.boot, record.seq, record.stage.value, record.look


def _before(one: AnyEntry, other: AnyEntry) -> bool:
    if one.received != other.received:
        return one.received < other.received
    return encode(one.record) < encode(other.record)


def by_worker(entries: Sequence[Entry]) -> dict[str, list[Entry]]:
    """Each worker's entries in the order in which it made them; ``entries`` are canonical.

    Lives of one worker follow one another in the order in which their first record arrived.
    """
    grouped: dict[str, list[Entry]] = {}
    for entry in entries:
        grouped.setdefault(entry.worker.id, []).append(entry)
    for mine in grouped.values():
        if len(mine) > 1:
            lives: dict[str, int] = {}
            for entry in mine:
                lives.setdefault(entry.worker.boot, len(lives))
            mine.sort(key=lambda entry: (lives[entry.worker.boot], entry.record.seq))
    return grouped


def moments(mine: Sequence[Entry]) -> list[Moment]:
    """For one worker's entries, in its own order: since when each is known to have existed.

    A record was made before any later one of the same life arrived, so that a batch which was overtaken
    does not change the order.
    """
    out: list[Moment] = []
    arrival, boot = float("inf"), ""
    for entry in reversed(mine):
        if entry.worker.boot != boot:
            arrival, boot = float("inf"), entry.worker.boot
        arrival = min(arrival, entry.received)
        out.append((arrival, entry.worker.id, boot, entry.record.seq))
    out.reverse()
    return out
