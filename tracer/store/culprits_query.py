"""Compared rooms of a window with what they have in common: the input of :mod:`tracer.culprits.ranking`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import msgspec
from sqlalchemy import Connection, Row, select

from pd_tracer_hooks.wire import Worker
from tracer.culprits.ranking import Case, Factor
from tracer.explain import pair_text
from tracer.store.schema import rooms, workers

#: Most rooms that are read, the newest first: beyond it the answer says that it is a sample.
MAX_ROOMS = 20_000
_COMPARED = ("match", "mismatch")
_worker = msgspec.json.Decoder(Worker)


class _Component(msgspec.Struct):
    component: str
    verdict: str


class _Transfer(msgspec.Struct):
    prefill_workers: list[str] = []
    decode_workers: list[str] = []


class _Attempt(msgspec.Struct):
    transfers: list[_Transfer] = []


class _Body(msgspec.Struct):
    """As much of a stored :class:`~tracer.join.model.RoomVerdict` as is needed here."""

    attempts: list[_Attempt] = []
    components: list[_Component] = []


_body = msgspec.msgpack.Decoder(_Body)


@dataclass(frozen=True)
class Compared:
    """Rooms and components that were compared, one case each; ``sampled``: older ones were left out."""

    rooms: list[Case]
    components: list[Case]
    sampled: bool


def read_compared(
    connection: Connection, *, since: float, deployment: str | None = None, limit: int = MAX_ROOMS
) -> Compared:
    """Rooms compared since ``since`` (the collector's clock), with the factors of their latest attempt.

    Versions and hardware are those of each worker's latest boot.
    """
    known = _workers(connection, deployment)
    query = (
        select(
            rooms.c.deployment,
            rooms.c.verdict,
            rooms.c.prefill_server,
            rooms.c.decode_server,
            rooms.c.run,
            rooms.c.body,
        )
        .where(rooms.c.last_seen >= since, rooms.c.verdict.in_(_COMPARED))
        .order_by(rooms.c.last_seen.desc())
        .limit(limit + 1)
    )
    if deployment is not None:
        query = query.where(rooms.c.deployment == deployment)
    rows = connection.execute(query).all()
    whole: list[Case] = []
    parts: list[Case] = []
    for row in rows[:limit]:
        verdict, found = row.verdict, _body.decode(row.body)
        factors = frozenset(_factors(row, found, known))
        whole.append(Case(factors, verdict == "mismatch"))
        parts += [
            Case(factors | {Factor("component", part.component)}, part.verdict == "mismatch")
            for part in found.components
            if part.verdict in _COMPARED
        ]
    return Compared(whole, parts, len(rows) > limit)


def _workers(connection: Connection, deployment: str | None) -> dict[tuple[str, str], Worker]:
    query = select(workers.c.deployment, workers.c.worker, workers.c.body)
    if deployment is not None:
        query = query.where(workers.c.deployment == deployment)
    return {(row[0], row[1]): _worker.decode(row[2]) for row in connection.execute(query)}


def _factors(
    row: Row[*tuple[Any, ...]], body: _Body, known: Mapping[tuple[str, str], Worker]
) -> Iterator[Factor]:
    yield Factor("pair", pair_text(row.prefill_server, row.decode_server))
    yield Factor("prefill_server", row.prefill_server)
    yield Factor("decode_server", row.decode_server)
    if row.run:
        yield Factor("run", row.run)
    transfers = body.attempts[-1].transfers if body.attempts else []
    for transfer in transfers:
        for side, names in (("prefill", transfer.prefill_workers), ("decode", transfer.decode_workers)):
            for name in names:
                yield Factor(f"{side}_worker", name)
                worker = known.get((row.deployment, name))
                if worker is not None:
                    yield from _of_worker(side, worker)


def _of_worker(side: str, worker: Worker) -> Iterator[Factor]:
    version = " ".join(part for part in (worker.engine, worker.engine_version) if part)
    node = worker.node or worker.host
    if node:
        yield Factor("node", node)
    for kind, value in (
        ("node", node),
        ("gpu", worker.gpu),
        ("nic", f"{node}:{worker.nic}" if worker.nic else ""),
        ("version", version),
        ("config", worker.config_hash),
    ):
        if value:
            yield Factor(f"{side}_{kind}", value)
