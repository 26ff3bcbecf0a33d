"""``GET /summary``."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query
from pydantic import Field

from tracer.api.deps import AppCollector, Now, Reading
from tracer.api.models import Summary
from tracer.api.models.base import problems
from tracer.api.params import Name, Params, Window
from tracer.api.views import summary
from tracer.store.summary_query import read_pending, read_window
from tracer.times import parse_duration

router = APIRouter(tags=["summary"])


class SummaryQuery(Params):
    """Parameters of ``GET /summary``."""

    window: Window | None = Field(
        None, description="How far to look back; the default is the setting of the ratio gauges, 15 minutes"
    )
    deployment: Name | None = None


@router.get(
    "/summary",
    summary="Counts and ratios over a window",
    responses=problems(s422="A parameter is wrong; `field` names it", s503="The database is away"),
)
def get_summary(
    query: Annotated[SummaryQuery, Query()], connection: Reading, collector: AppCollector, now: Now
) -> Summary:
    """Count verdicts that were settled in the window, in all, by component and by pair of servers.

    Counts are kept by minute, so the window is rounded out to whole minutes. The ratios are match and
    mismatch over match + mismatch, and null where nothing was compared.
    """
    window_s = parse_duration(query.window) if query.window is not None else collector.settings.ratio_window_s
    window = read_window(connection, now=now, window_s=window_s, deployment=query.deployment)
    pending = read_pending(connection, query.deployment)
    return summary(window, pending, window_s=window_s, deployment=query.deployment)
