"""``POST /v1/reports``: a batch from a worker. It is answered after its commit."""

from __future__ import annotations

import asyncio
import time

from fastapi import APIRouter, Request, Response
from starlette.concurrency import run_in_threadpool
from starlette.requests import ClientDisconnect

from pd_tracer_hooks.wire import Answer
from tracer.api.answers import Rejected, media_type, reject, respond
from tracer.api.reading import CONTENT_TYPES, MAX_REFUSALS, Read, read_report
from tracer.collector import Collector
from tracer.store.batch import Batch, Outcome, make_batch
from tracer.store.failures import Refused, Unavailable

router = APIRouter()

#: Bodies larger than this are decoded in a thread, so that other requests are answered meanwhile.
OFFLOAD_BYTES = 1 << 20
#: What is still read of a body that is too large, in multiples of the limit. A client that is cut off
#: while it sends often sees a broken connection instead of the answer.
DRAIN_FACTOR = 4


@router.post("/v1/reports", include_in_schema=False)
async def post_report(request: Request) -> Response:
    """Take a report. See docs/wire.md."""
    collector: Collector = request.app.state.collector
    try:
        return await _take(request, collector)
    except Rejected as error:
        collector.counters.refusals.labels(_REASONS.get(error.status, "invalid")).inc()
        return reject(request, error)
    except ClientDisconnect:
        # Nobody reads this answer.
        return Response(status_code=400)
    except asyncio.CancelledError:
        # The server stops and waits no longer for the rest of this request; nothing of it was answered.
        return reject(request, Rejected(503, "the collector is stopping", hint=_AGAIN, retry_after=1.0))


_AGAIN = "send the same batch again later"
_REASONS = {
    400: "malformed",
    413: "too_large",
    415: "content_type",
    422: "invalid",
    503: "unavailable",
}


async def _take(request: Request, collector: Collector) -> Response:
    content_type = _content_type(request)
    body = await read_body(request, collector.settings.max_body_bytes)
    if len(body) > OFFLOAD_BYTES:
        read, batch = await run_in_threadpool(_prepare, body, content_type, collector)
    else:
        read, batch = _prepare(body, content_type, collector)
    if read.refused:
        collector.counters.refusals.labels("record").inc(len(read.refused))
    refused = read.refused[:MAX_REFUSALS]
    if read.only_refused:
        return respond(request, 422, Answer(refused=refused))
    outcome = await _commit(collector, batch)
    answer = Answer(
        accepted=outcome.accepted,
        duplicate=outcome.duplicate,
        conflicting=outcome.conflicting,
        refused=refused,
        wanted=collector.wants.of(batch.worker.deployment, batch.worker.id, time.time()),
    )
    return respond(request, 200, answer)


def _prepare(body: bytes, content_type: str, collector: Collector) -> tuple[Read, Batch]:
    now = time.time()
    read = read_report(body, content_type, now=now, max_records=collector.settings.max_batch_records)
    batch = make_batch(
        read.report,
        read.observations,
        read.events,
        read.manifests,
        read.details,
        received=now,
        size=len(body),
    )
    return read, batch


async def _commit(collector: Collector, batch: Batch) -> Outcome:
    try:
        return await asyncio.wrap_future(collector.writer.submit(batch))
    except Unavailable as error:
        raise Rejected(503, str(error), hint=_AGAIN, retry_after=error.retry_after) from None
    except Refused as error:
        raise Rejected(
            422, f"the database refused the batch: {error}", hint="the collector's log says more"
        ) from None


def _content_type(request: Request) -> str:
    kind = media_type(request)
    if kind not in CONTENT_TYPES:
        raise Rejected(
            415,
            f"content type {kind!r:.80} is not taken",
            field="Content-Type",
            hint=f"send {' or '.join(CONTENT_TYPES)}",
        )
    encoding = request.headers.get("content-encoding", "identity").strip().lower()
    if encoding not in ("", "identity"):
        raise Rejected(
            415,
            f"content encoding {encoding!r:.80} is not taken",
            field="Content-Encoding",
            hint="send the body as it is",
        )
    return kind


async def read_body(request: Request, limit: int) -> bytes:
    """The request's body. Raises :class:`Rejected` (413) when it has more than ``limit`` bytes."""
    chunks: list[bytes] = []
    size = 0
    async for chunk in request.stream():
        size += len(chunk)
        if size <= limit:
            chunks.append(chunk)
        elif size > limit * DRAIN_FACTOR:
            break
        else:
            chunks.clear()
    if size > limit:
        raise Rejected(
            413,
            f"the body has more than {limit} bytes",
            field="Content-Length",
            hint="send halves, or raise PD_TRACER_MAX_BODY_BYTES",
        )
    return b"".join(chunks)
