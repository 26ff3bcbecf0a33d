"""Agents for tests, with looks at a small pool and backends that do as they are told."""

from __future__ import annotations

import threading

from support.recorder import Recorder

from pd_tracer_hooks.agent import Agent
from pd_tracer_hooks.capture import ComponentLook, Look
from pd_tracer_hooks.digest.backend import DigestRequest, PageDigests, Pool, ScratchFull
from pd_tracer_hooks.digest.cpu import CpuBackend
from pd_tracer_hooks.identity import describe_worker
from pd_tracer_hooks.layout import PageLayout
from pd_tracer_hooks.settings import Settings
from pd_tracer_hooks.wire import Side, Stage

POOL = Pool("kv", PageLayout.plain(4, 16), {layer: bytes(range(64)) * 32 for layer in (0, 1)})


def settings_for(recorder: Recorder | str, **changes: object) -> Settings:
    url = recorder if isinstance(recorder, str) else recorder.url
    fast = {"flush_ms": 5.0, "backoff_s": 0.01, "backoff_max_s": 0.05, "server": "P0"}
    return Settings(url=url, deployment="d", **(fast | changes))  # type: ignore[arg-type]


def make(settings: Settings, backend: object = None) -> Agent:
    return Agent(
        settings,
        describe_worker(settings, side=Side.prefill),
        backend=backend or CpuBackend(),  # type: ignore[arg-type]
    )


def look(room: str = "r", **changes: object) -> Look:
    component = ComponentLook(pool=POOL, pages=[3, 4, 5], total_pages=3)
    values = {"room": room, "keys": ["0" * 16], "stage": Stage.send, "components": [component]}
    return Look(**(values | changes))  # type: ignore[arg-type]


class Slow:
    """A backend whose digests are done when the test says so, as a device's are."""

    name = "slow"

    def __init__(self) -> None:
        self.done = threading.Event()
        self.launched: list[DigestRequest] = []

    def prepare(self, pool: Pool) -> None:
        CpuBackend().prepare(pool)

    def launch(self, request: DigestRequest) -> Slow.Pending:
        self.launched.append(request)
        return Slow.Pending(self, request)

    class Pending:
        def __init__(self, backend: Slow, request: DigestRequest) -> None:
            self._backend, self._request = backend, request

        def ready(self) -> bool:
            return self._backend.done.is_set()

        def result(self) -> PageDigests:
            return CpuBackend().launch(self._request).result()


class Full:
    """A backend without a place for one more digest."""

    name = "full"

    def prepare(self, pool: Pool) -> None:
        CpuBackend().prepare(pool)

    def launch(self, request: DigestRequest) -> Full:
        return self

    def ready(self) -> bool:
        return True

    def result(self) -> PageDigests:
        raise ScratchFull("no place")
