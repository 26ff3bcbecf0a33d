"""What routes are given: a connection, the clock, and the collector of the app that they are part of."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Annotated

from fastapi import Depends, Request
from sqlalchemy import Connection

from tracer.collector import Collector
from tracer.store.reading import reading


def get_collector(request: Request) -> Collector:
    """The collector behind the app."""
    collector: Collector = request.app.state.collector
    return collector


AppCollector = Annotated[Collector, Depends(get_collector)]


def get_now() -> float:
    """Seconds since the epoch by the collector's clock."""
    return time.time()


def get_connection(collector: AppCollector) -> Iterator[Connection]:
    """A connection that sees one state of the database for the whole request."""
    with reading(collector.database) as connection:
        yield connection


Reading = Annotated[Connection, Depends(get_connection, scope="function")]
Now = Annotated[float, Depends(get_now)]
