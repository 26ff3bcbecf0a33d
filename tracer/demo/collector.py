"""The demo's collector: a process of its own on SQLite, on loopback, with short deadlines."""

from __future__ import annotations

import socket
import time
from pathlib import Path
from typing import Self

import httpx
from msgspec import Struct, json

from pd_tracer_hooks.wire import Coverage
from tracer.demo.children import Child, Children
from tracer.join.model import Attempt, Cause, ComponentVerdict, Verdict

#: Seconds until a missing side is called so. A real cluster waits for minutes.
DEADLINE_S = 5.0


class RoomAnswer(Struct, frozen=True, kw_only=True):
    """What the demo reads of ``GET /rooms/{room}``."""

    verdict: Verdict
    cause: Cause | None = None
    settled: bool = True
    reason: str = ""
    #: The verdict in words.
    summary: str = ""
    coverage: Coverage | None = None
    components: list[ComponentVerdict] = []
    attempts: list[Attempt] = []


class Collector:
    """A started collector. As a context it closes its connection."""

    def __init__(self, children: Children, database: Path, port: int = 0) -> None:
        """Start it on a loopback ``port`` (0: any free one), keeping its reports in ``database``."""
        self.port = port or free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.child: Child = children.start(
            "collector",
            ["-m", "tracer.demo.serve"],
            {
                "PD_TRACER_HOST": "127.0.0.1",
                "PD_TRACER_PORT": str(self.port),
                "PD_TRACER_DATABASE_URL": f"sqlite:///{database}",
                "PD_TRACER_SEND_DEADLINE_S": str(DEADLINE_S),
                "PD_TRACER_OPEN_DEADLINE_S": str(DEADLINE_S),
                "PD_TRACER_LOG_LEVEL": "warning",
            },
        )
        self._http = httpx.Client(base_url=self.url, timeout=10.0, trust_env=False)

    def wait_ready(self, deadline: float) -> None:
        """Wait until it answers. Raises ``ChildError`` if it ends, ``TimeoutError`` at ``deadline``."""
        while True:
            if self.child.process.poll() is not None:
                raise self.child.failure("ended at its start")
            try:
                if self._http.get("/readyz").status_code == httpx.codes.OK:
                    return
            except httpx.TransportError:
                pass  # not listening yet
            if time.monotonic() > deadline:
                raise TimeoutError(f"the collector at {self.url} is not ready; see {self.child.log}")
            time.sleep(0.05)

    def room(self, room: str, deployment: str) -> RoomAnswer | None:
        """What the collector says of a room, or None if it has not heard of it."""
        try:
            answer = self._http.get(f"/rooms/{room}", params={"deployment": deployment})
        except httpx.TransportError as error:
            raise self.child.failure(f"does not answer: {error}") from error
        if answer.status_code == httpx.codes.NOT_FOUND:
            return None
        answer.raise_for_status()
        return json.decode(answer.content, type=RoomAnswer)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Close the connection; the process is ended with all others."""
        self._http.close()


def free_port() -> int:
    """A loopback port that is free now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
