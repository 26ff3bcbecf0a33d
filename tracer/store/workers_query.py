"""The workers that reported, and what they are."""

from __future__ import annotations

from dataclasses import dataclass

import msgspec
from sqlalchemy import ColumnElement, Connection, and_, null, select

from pd_tracer_hooks.wire import Heartbeat, Manifest, Worker
from tracer.store import schema
from tracer.store.codec import decode_manifest
from tracer.store.schema import workers


@dataclass(frozen=True)
class WorkerRow:
    """One worker: its latest boot."""

    first_seen: float
    last_seen: float
    identity: Worker
    #: None while there was none.
    heartbeat: Heartbeat | None
    #: Records lost since this boot, by reason.
    drops: dict[str, int]
    #: None while this boot has not sent one.
    manifest: Manifest | None


_identities = msgspec.json.Decoder(Worker)
_heartbeats = msgspec.json.Decoder(Heartbeat)
_drops = msgspec.json.Decoder(dict[str, int])


def read_workers(
    connection: Connection,
    *,
    deployment: str | None = None,
    side: str | None = None,
    server: str | None = None,
    node: str | None = None,
    seen_since: float | None = None,
    manifests: bool = True,
) -> list[WorkerRow]:
    """The workers for which everything given holds, by deployment, side (prefill first), server and name.

    Without ``manifests`` none is read, and each worker's is None.
    """
    columns = workers.c
    equal = {columns.deployment: deployment, columns.side: side, columns.server: server, columns.node: node}
    conditions = [column == value for column, value in equal.items() if value is not None]
    if seen_since is not None:
        conditions.append(columns.last_seen >= seen_since)
    query = select(
        columns.first_seen, columns.last_seen, columns.body, columns.heartbeat, columns.drops
    ).where(*conditions)
    if manifests:
        query = query.add_columns(schema.manifests.c.body.label("manifest")).outerjoin_from(
            workers, schema.manifests, _same_boot()
        )
    else:
        query = query.add_columns(null().label("manifest"))
    query = query.order_by(columns.deployment, columns.side.desc(), columns.server, columns.worker)
    return [
        WorkerRow(
            row.first_seen,
            row.last_seen,
            _identities.decode(row.body),
            _heartbeats.decode(row.heartbeat) if row.heartbeat else None,
            _drops.decode(row.drops),
            decode_manifest(row.manifest) if row.manifest is not None else None,
        )
        for row in connection.execute(query)
    ]


def _same_boot() -> ColumnElement[bool]:
    theirs = schema.manifests.c
    return and_(
        theirs.deployment == workers.c.deployment,
        theirs.worker == workers.c.worker,
        theirs.boot == workers.c.boot,
    )
