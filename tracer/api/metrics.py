"""``GET /metrics``."""

from __future__ import annotations

from fastapi import APIRouter, Request
from prometheus_client import disable_created_metrics
from prometheus_client.exposition import choose_encoder
from starlette.responses import Response

from tracer.api.deps import AppCollector

router = APIRouter(tags=["operation"])

# A second series beside each counter, for a format that says when it began. Nobody reads it, and it doubles
# what a scrape costs.
disable_created_metrics()  # type: ignore[no-untyped-call]


@router.get(
    "/metrics",
    summary="Metrics for Prometheus",
    response_class=Response,
    responses={200: {"content": {"text/plain": {"schema": {"type": "string"}}}}},
)
def get_metrics(request: Request, collector: AppCollector) -> Response:
    """Answer with everything in the app's registry, as text or OpenMetrics, by the ``Accept`` header."""
    encoder, content_type = choose_encoder(request.headers.get("accept", ""))
    return Response(encoder(collector.registry), headers={"Content-Type": content_type})
