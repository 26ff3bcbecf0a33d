"""A collector on a real socket, in a thread."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import httpx
import uvicorn
from fastapi import FastAPI
from sqlalchemy import text

from pd_tracer_hooks import wire
from tracer.app import create_app
from tracer.cli.serve import listen
from tracer.collector import Collector
from tracer.settings import Settings

ANSWERS = {kind: wire.decoder(wire.Answer, kind) for kind in (wire.JSON, wire.MSGPACK)}


@dataclass
class Server:
    """A running collector and a client of it."""

    url: str
    app: FastAPI
    http: httpx.Client

    @property
    def collector(self) -> Collector:
        """What stands behind the routes."""
        collector: Collector = self.app.state.collector
        return collector

    def post(self, report: wire.Report | bytes, kind: str = wire.MSGPACK, **headers: str) -> httpx.Response:
        """Post a report, or bytes as they are."""
        body = report if isinstance(report, bytes) else wire.encode(report, kind)
        return self.http.post("/v1/reports", content=body, headers={"Content-Type": kind, **headers})

    def tell(self, *reports: wire.Report) -> list[wire.Answer]:
        """Post reports that must be taken; returns the answers."""
        answers = []
        for report in reports:
            response = self.post(report)
            assert response.status_code == 200, response.text
            answers.append(ANSWERS[wire.MSGPACK].decode(response.content))
        return answers

    def sql(self, query: str, **values: Any) -> list[Any]:
        """Rows of a query on the collector's database."""
        with self.collector.database.read.connect() as connection:
            return list(connection.execute(text(query), values))

    def verdict(self, room: str) -> str | None:
        """The stored verdict of a room, or None."""
        rows = self.sql("SELECT verdict FROM rooms WHERE room = :room", room=room)
        return rows[0][0] if rows else None

    def metric(self, name: str, **labels: str) -> float | None:
        """A sample of the collector's own registry, or None."""
        return self.collector.registry.get_sample_value(name, labels)


@contextmanager
def serve(settings: Settings) -> Iterator[Server]:
    """Run a collector until the block ends; then it has drained its queue."""
    app = create_app(settings)
    listener = listen("127.0.0.1", settings.port)
    config = uvicorn.Config(app, log_config=None, lifespan="on", timeout_graceful_shutdown=10)
    running = uvicorn.Server(config)
    started = threading.Event()
    startup = running.startup

    async def start(sockets: list[socket.socket] | None = None) -> None:
        try:
            await startup(sockets)
        finally:
            started.set()

    running.startup = start  # type: ignore[method-assign]
    thread = threading.Thread(target=running.run, kwargs={"sockets": [listener]}, daemon=True)
    thread.start()
    assert started.wait(30), "the collector did not start"
    assert running.started, "the collector did not start: see the log"
    url = f"http://127.0.0.1:{listener.getsockname()[1]}"
    try:
        with httpx.Client(base_url=url, timeout=30) as http:
            yield Server(url, app, http)
    finally:
        running.should_exit = True
        thread.join(30)
        listener.close()
        assert not thread.is_alive(), "the collector did not stop"
