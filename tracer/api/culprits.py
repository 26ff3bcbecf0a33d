"""``GET /culprits``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

from fastapi import APIRouter, Query
from pydantic import Field

from tracer.api.deps import Now, Reading
from tracer.api.models import culprits as shown
from tracer.api.models.base import problems
from tracer.api.params import Name, Params, Window
from tracer.culprits import ranking
from tracer.store.culprits_query import read_compared
from tracer.times import parse_duration

router = APIRouter(tags=["summary"])


class CulpritsQuery(Params):
    """Parameters of ``GET /culprits``."""

    window: Window = Field("1h", description="How far to look back")
    deployment: Name | None = None
    limit: int = Field(20, ge=1, le=200, description="Most factors to list")


@router.get(
    "/culprits",
    summary="What the mismatches of a window have in common",
    responses=problems(s422="A parameter is wrong; `field` names it", s503="The database is away"),
)
def get_culprits(query: Annotated[CulpritsQuery, Query()], connection: Reading, now: Now) -> shown.Culprits:
    """Rank prefill and decode workers, servers, pairs, nodes, GPUs, NICs, versions, configurations, runs and
    components by how many of the window's mismatches they explain.

    A factor explains what its rooms have beyond the ratio found outside it. One that stands out has more than
    chance gives it, at 95 %; with many factors in the list some do by chance, so look at the counts too.
    """
    window_s = parse_duration(query.window)
    compared = read_compared(connection, since=now - window_s, deployment=query.deployment)
    ranked = ranking.rank(compared.rooms)
    components = [c for c in ranking.rank(compared.components) if c.factor.kind == "component"]
    mismatches = sum(case.mismatch for case in compared.rooms)
    return shown.Culprits(
        window_s=window_s,
        since=now - window_s,
        deployment=query.deployment,
        summary=ranking.sentence(ranked, mismatches=mismatches, compared=len(compared.rooms)),
        mismatches=mismatches,
        compared=len(compared.rooms),
        sampled=compared.sampled,
        culprits=_show(ranked, query.limit),
        components=_show(components, query.limit),
    )


def _show(culprits: Sequence[ranking.Culprit], limit: int) -> list[shown.Culprit]:
    return [
        shown.Culprit(
            kind=each.factor.kind,
            value=each.factor.value,
            mismatches=each.mismatches,
            compared=each.compared,
            ratio=each.ratio,
            ratio_low=each.inside.low,
            ratio_high=each.inside.high,
            other_mismatches=each.other_mismatches,
            other_compared=each.other_compared,
            other_ratio=each.other_ratio,
            gap_low=each.gap.low,
            gap_high=each.gap.high,
            explained=each.explained,
            stands_out=each.stands_out,
            twins=[shown.Factor(kind=twin.kind, value=twin.value) for twin in each.twins],
        )
        for each in culprits[:limit]
    ]
