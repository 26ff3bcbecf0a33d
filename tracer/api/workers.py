"""``GET /workers``."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query
from pydantic import Field

from pd_tracer_hooks.wire import Side
from tracer.api.deps import Now, Reading
from tracer.api.models import Workers
from tracer.api.models.base import problems
from tracer.api.params import Duration, Name, Params
from tracer.api.views import worker
from tracer.store.workers_query import read_workers
from tracer.times import parse_duration
from tracer.unlike import unlike

router = APIRouter(tags=["workers"])

#: A worker that was silent for so long is not compared with others: it may be yesterday's.
_GONE_AFTER_S = 600.0


class WorkersQuery(Params):
    """Filters of ``GET /workers``. Everything that is given must hold."""

    deployment: Name | None = None
    side: Side | None = None
    server: Name | None = None
    node: Name | None = None
    seen: Duration | None = Field(None, description="Workers that reported within this time")


@router.get(
    "/workers",
    summary="Workers that reported",
    responses=problems(s422="A filter is wrong; `field` names it", s503="The database is away"),
)
def get_workers(query: Annotated[WorkersQuery, Query()], connection: Reading, now: Now) -> Workers:
    """Say who reports: identity, age of the last report, state of the hooks, losses, what its pool holds."""
    rows = read_workers(
        connection,
        deployment=query.deployment,
        side=query.side.value if query.side is not None else None,
        server=query.server,
        node=query.node,
        seen_since=now - parse_duration(query.seen) if query.seen is not None else None,
    )
    everyone = read_workers(connection, deployment=query.deployment, manifests=False)
    differing = unlike([row.identity for row in everyone if now - row.last_seen <= _GONE_AFTER_S])
    return Workers(
        workers=[
            worker(row, now, differing.get((row.identity.deployment, row.identity.id), ())) for row in rows
        ]
    )
