"""Workers that differ from the others of their deployment."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from support.reports import Cluster
from support.serving import Server

from pd_tracer_hooks.wire import Heartbeat, Side, Worker
from tracer.unlike import unlike


def worker(name: str, side: Side = Side.decode, deployment: str = "d", **other: Any) -> Worker:
    return Worker(id=name, boot="b", deployment=deployment, side=side, server=name, **other)


@pytest.mark.parametrize(
    ("workers", "expected"),
    [
        ([worker("a", fingerprint="1"), worker("b", fingerprint="1")], {}),
        ([worker("a", fingerprint="1"), worker("b", fingerprint="")], {}),
        (
            [worker("a", hooks_version="1"), worker("b", hooks_version="1"), worker("c", hooks_version="2")],
            {"c": ["hooks version 2: 2 of 3 workers have 1"]},
        ),
        (
            [worker("a", engine_version="1"), worker("b", side=Side.prefill, engine_version="2")],
            {
                "a": ["engine version 1: the deployment has 2, none with most workers"],
                "b": ["engine version 2: the deployment has 2, none with most workers"],
            },
        ),
        ([worker("a", config_hash="1"), worker("b", side=Side.prefill, config_hash="2")], {}),
        ([worker("a", config_hash="1"), worker("b", deployment="e", config_hash="2")], {}),
    ],
)
def test_unlike(workers: list[Worker], expected: dict[str, list[str]]) -> None:
    assert {name: words for (_, name), words in unlike(workers).items()} == expected


def test_workers_are_flagged_whatever_the_filter(server: Server) -> None:
    cluster = Cluster()
    for speaker, version in ((cluster.prefill, "0.5.21"), (cluster.decode, "0.5.23")):
        speaker.worker = msgspec.structs.replace(speaker.worker, engine_version=version)
        server.tell(speaker.report(heartbeat=Heartbeat()))
    [row] = server.http.get("/workers", params={"side": "decode"}).json()["workers"]
    assert row["unlike"] == ["engine version 0.5.23: the deployment has 2, none with most workers"]
