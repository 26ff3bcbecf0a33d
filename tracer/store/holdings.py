"""Who held which physical pages of a decode worker, and when by that worker's own count.

Written with the ``allocate`` or ``receive`` that names its pages. Rows lie in the order of a worker's count,
so finding the rooms before and after one reads a stretch of one tree, and writing appends to it.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing
from typing import NamedTuple

import msgspec
from sqlalchemy import Connection, delete, select, tuple_

from pd_tracer_hooks.runs import Run
from pd_tracer_hooks.wire import Observation, Side, Stage
from tracer.store.batch import Batch
from tracer.store.codec import RoomRef
from tracer.store.schema import donor_asks, holdings
from tracer.store.statements import Statements
from tracer.store.upsert import insert_missing

#: Receives of one worker that are looked through before and after a room's own.
LOOK_BACK, LOOK_AHEAD = 2000, 200
#: Other rooms that are named as having held a component's bad pages: the nearest before, the nearest after.
NAMED_BEFORE, NAMED_AFTER = 6, 2
#: Looks that say which pages a room has. An aborted one has no ``receive``, and its writes may still land.
_NAMES_PAGES = frozenset({Stage.allocate, Stage.receive})
#: Rows are pruned this often.
PRUNE_EVERY_S = 600.0

#: Component names that share a page table, and their physical runs.
Pages = list[tuple[list[str], list[Run]]]
_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(Pages).decode


class Holder(NamedTuple):
    """A room that held some of the pages asked for."""

    day: int
    room: str
    #: Those pages, ascending.
    pages: list[int]


class Holdings:
    """Writes the table. Belongs to the writer's thread."""

    def __init__(self, keep_s: float) -> None:
        """``keep_s``: how long rows are kept, in seconds; 0: nothing is written or looked for."""
        self.keep_s = keep_s
        self._prune_at = 0.0

    def write(
        self,
        connection: Connection,
        statements: Statements,
        batches: Iterable[Batch],
        days: Mapping[RoomRef, int],
        now: float,
    ) -> None:
        """Keep what decode workers said of their pages. ``days``: of the rooms that have something new."""
        if not self.keep_s:
            return
        rows = [
            (ref[0], key.worker, key.boot, key.seq, days[ref], ref[1], batch.received, pages)
            for batch in batches
            if batch.worker.side is Side.decode
            for ref, key, entry, _ in batch.records
            if ref in days and (pages := _pages(entry.record))
        ]
        if rows:
            with closing(connection.connection.cursor()) as cursor:
                statements.append_holdings(cursor, sorted(rows))
        if now >= self._prune_at:
            self._prune_at = now + PRUNE_EVERY_S
            connection.execute(delete(holdings).where(holdings.c.received < now - self.keep_s))
            connection.execute(delete(donor_asks).where(donor_asks.c.created < now - self.keep_s))


def holders(
    connection: Connection, owner: tuple[str, str, str, int], room: str, component: str, pages: Sequence[int]
) -> list[Holder]:
    """Other rooms that held some of ``pages`` (ascending) before or after one receive, the nearest first.

    ``owner``: deployment, worker, boot and ``seq`` of the receive of ``room``.
    """
    columns = holdings.c
    query = select(columns.day, columns.room, columns.pages).where(
        tuple_(columns.deployment, columns.worker, columns.boot) == owner[:3]
    )
    before = query.where(columns.seq < owner[3]).order_by(columns.seq.desc()).limit(LOOK_BACK)
    after = query.where(columns.seq > owner[3]).order_by(columns.seq).limit(LOOK_AHEAD)
    found: dict[str, Holder] = {}
    for part, places in ((before, NAMED_BEFORE), (after, NAMED_AFTER)):
        most = len(found) + places
        for day, other, body in connection.execute(part):
            if len(found) >= most:
                break
            if other != room and other not in found:
                shared = _shared(_decode(body), component, pages)
                if shared:
                    found[other] = Holder(day, other, shared)
    return list(found.values())


def ask_for(connection: Connection, asks: Iterable[tuple[str, str, str]], now: float) -> None:
    """Remember (deployment, donor, victim): the victim is judged again once the donor's digests come."""
    rows = [
        {"deployment": deployment, "donor": donor, "victim": victim, "created": now}
        for deployment, donor, victim in asks
    ]
    insert_missing(connection, donor_asks, rows)


def victims_of(connection: Connection, donors: Iterable[RoomRef]) -> list[RoomRef]:
    """The rooms that wait for the page digests of ``donors``."""
    columns = donor_asks.c
    query = (
        select(columns.deployment, columns.victim)
        .where(tuple_(columns.deployment, columns.donor).in_(sorted(set(donors))))
        .distinct()
    )
    return [(deployment, victim) for deployment, victim in connection.execute(query)]


def _pages(record: object) -> bytes:
    if not isinstance(record, Observation) or record.stage not in _NAMES_PAGES or record.look:
        return b""
    tables: list[tuple[list[str], list[Run]]] = []
    for component in record.components:
        runs = component.physical
        if not runs:
            continue
        same = next((names for names, theirs in tables if theirs == runs), None)
        if same is not None:
            same.append(component.name)
        else:
            tables.append(([component.name], runs))
    return _encode(tables) if tables else b""


def _shared(tables: Pages, component: str, pages: Sequence[int]) -> list[int]:
    """Those of ``pages`` (ascending) that a component had."""
    shared: set[int] = set()
    for names, runs in tables:
        if component in names:
            for first, count in runs:
                shared.update(pages[bisect_left(pages, first) : bisect_left(pages, first + count)])
    return sorted(shared)
