"""``GET /exonerated``."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query
from pydantic import Field

from tracer.api.deps import Now, Reading
from tracer.api.models import Exonerated
from tracer.api.models.base import problems
from tracer.api.params import Name, Params, Window
from tracer.api.views import room_summary
from tracer.fleet import Standing, statement
from tracer.join.model import Cause, Verdict
from tracer.store.fleet_query import read_fleet
from tracer.times import parse_duration

router = APIRouter(tags=["summary"])


class ExoneratedQuery(Params):
    """Parameters of ``GET /exonerated``."""

    window: Window = Field("1h", description="How far to look back")
    deployment: Name | None = None
    limit: int = Field(20, ge=1, le=200, description="Most rooms left unexplained to list")


@router.get(
    "/exonerated",
    summary="Of how many rooms the transfer is exonerated, and which are left unexplained",
    responses=problems(s422="A parameter is wrong; `field` names it", s503="The database is away"),
)
def get_exonerated(query: Annotated[ExoneratedQuery, Query()], connection: Reading, now: Now) -> Exonerated:
    """Sort the rooms of a window by what their verdicts say of the transfer.

    A room is exonerated if every page of every layer and component that its workers have was read on both
    sides and is equal: look elsewhere for its trouble. All others say how far they fall short of that.
    """
    window_s = parse_duration(query.window)
    found = read_fleet(connection, since=now - window_s, deployment=query.deployment, show=query.limit)
    return Exonerated(
        window_s=window_s,
        since=now - window_s,
        deployment=query.deployment,
        summary=statement(found.standings),
        read=found.standings.total(),
        exonerated=found.standings[Standing.exonerated],
        ends_only=found.standings[Standing.ends_only],
        not_all_traced=found.standings[Standing.not_all_traced],
        explained={Cause(name): count for name, count in sorted(found.causes.items())},
        unexplained=found.standings[Standing.unexplained],
        not_compared={Verdict(name): count for name, count in sorted(found.not_compared.items())},
        rooms=[room_summary(row) for row in found.unexplained],
        sampled=found.sampled,
    )
