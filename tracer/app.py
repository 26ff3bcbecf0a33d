"""The web application: routes, and the life of the collector behind them."""

from __future__ import annotations

import gc
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager

from fastapi import FastAPI
from fastapi.responses import RedirectResponse
from fastapi_offline import FastAPIOffline
from starlette.concurrency import run_in_threadpool

from tracer import __version__
from tracer.api import culprits, fleet, health, ingest, metrics, rooms, summary, workers
from tracer.api.openapi import describe_ingest
from tracer.api.problems import handle_problems
from tracer.collector import make_collector
from tracer.logs import configure_logging
from tracer.settings import Settings

DESCRIPTION = """
Checksums of KV-cache transfers between prefill and decode workers, joined by room: match or mismatch,
and where. Workers post to `/v1/reports`; everything else reads.
"""


@contextmanager
def patient_gc() -> Iterator[None]:
    """Look for reference cycles less often.

    Reports and verdicts are trees, which counting references frees. By default the cycle collector
    walks all of the remembered rooms again and again, which took more time than decoding them.
    """
    usual = gc.get_threshold()
    gc.set_threshold(50_000, 20, 100)
    try:
        yield
    finally:
        gc.set_threshold(*usual)


def create_app(settings: Settings | None = None) -> FastAPI:
    """The application on ``settings`` (default: from the environment). It starts with its lifespan.

    Raises ``pydantic.ValidationError`` or ``ValueError`` for settings that cannot be used.
    """
    settings = settings or Settings()
    configure_logging(settings)
    collector = make_collector(settings)

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        await run_in_threadpool(collector.start)
        try:
            with patient_gc():
                yield
        finally:
            await run_in_threadpool(collector.stop)

    # Its pages bring their scripts along: nobody's browser is sent to another host.
    app = FastAPIOffline(title="pd-tracer", version=__version__, description=DESCRIPTION, lifespan=lifespan)
    app.state.collector = collector
    app.state.settings = collector.settings
    app.state.database = collector.database
    app.state.registry = collector.registry
    handle_problems(app)
    for module in (ingest, rooms, summary, culprits, fleet, workers, metrics, health):
        app.include_router(module.router)
    describe_ingest(app)

    @app.get("/", include_in_schema=False)
    async def root() -> RedirectResponse:
        return RedirectResponse("docs")

    return app
