"""Answers that take nothing, and how every answer of the ingest route is encoded."""

from __future__ import annotations

from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from pd_tracer_hooks import wire


class Rejected(Exception):  # noqa: N818 - said of the request
    """A request that is answered with a problem."""

    def __init__(
        self, status: int, error: str, *, field: str = "", hint: str = "", retry_after: float | None = None
    ) -> None:
        super().__init__(error)
        self.status = status
        self.problem = wire.Problem(error=error, field=field, hint=hint)
        self.retry_after = retry_after


def answer_type(request: Request) -> str:
    """JSON or msgpack: what ``Accept`` names, else what the report came in, else JSON."""
    accept = request.headers.get("accept", "")
    wants = [kind for kind in (wire.MSGPACK, wire.JSON) if kind in accept]
    if len(wants) == 1:
        return wants[0]
    sent = media_type(request)
    return sent if sent in (wire.MSGPACK, wire.JSON) else wire.JSON


def media_type(request: Request) -> str:
    """The request's content type without parameters, in lower case."""
    return request.headers.get("content-type", "").split(";", 1)[0].strip().lower()


def respond(request: Request, status: int, value: Any, retry_after: float | None = None) -> Response:
    """Encode a struct of the wire as the client reads it."""
    kind = answer_type(request)
    # Rounded up: HTTP knows whole seconds only.
    headers = {"Retry-After": str(max(1, -int(-retry_after // 1)))} if retry_after is not None else None
    return Response(wire.encode(value, kind), status, headers, media_type=kind)


def reject(request: Request, error: Rejected) -> Response:
    """The answer to a request that is rejected."""
    return respond(request, error.status, error.problem, error.retry_after)
