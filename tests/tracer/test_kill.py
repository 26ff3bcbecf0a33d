"""Killed in the middle of its work, a collector has lost nothing that it acknowledged."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import httpx
from sqlalchemy import text
from support.reports import Cluster

from pd_tracer_hooks import wire
from pd_tracer_hooks.wire import MSGPACK, Report, Stage
from tracer.store import migrate
from tracer.store.database import open_database

SERVE = """
import os, uvicorn
from tracer.app import create_app
uvicorn.run(create_app(), host="127.0.0.1", port=int(os.environ["PORT"]), log_level="error")
"""


@contextmanager
def collector(url: str) -> Iterator[tuple[subprocess.Popen[bytes], str]]:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    environment = {**os.environ, "PD_TRACER_DATABASE_URL": url, "PORT": str(port)}
    process = subprocess.Popen([sys.executable, "-c", SERVE], env=environment)
    base = f"http://127.0.0.1:{port}"
    try:
        end = time.monotonic() + 30
        while True:
            try:
                if httpx.get(f"{base}/readyz").status_code == 200:
                    break
            except httpx.TransportError:
                assert process.poll() is None
            assert time.monotonic() < end
            time.sleep(0.05)
        yield process, base
    finally:
        process.kill()
        process.wait()


def post_until_killed(
    base: str, reports: list[Report], acknowledged: list[str], enough: threading.Event
) -> None:
    with httpx.Client(base_url=base, headers={"Content-Type": MSGPACK}) as http:
        for report in reports:
            try:
                response = http.post("/v1/reports", content=wire.encode(report))
            except httpx.TransportError:
                return
            if response.status_code == 200:
                acknowledged += [record.room for record in report.observations]
            if len(acknowledged) > 300:
                enough.set()


def test_nothing_acknowledged_is_lost(database_url: str) -> None:
    opened = open_database(database_url)
    migrate.upgrade(opened)
    cluster = Cluster()
    reports = [
        cluster.prefill.report(*(cluster.prefill.look(f"{n}-{m}", Stage.send) for m in range(10)))
        for n in range(2000)
    ]
    lists: list[list[str]] = [[], [], []]
    enough = threading.Event()
    with collector(database_url) as (process, base):
        threads = [
            threading.Thread(target=post_until_killed, args=(base, reports[start::3], done, enough))
            for start, done in enumerate(lists)
        ]
        for thread in threads:
            thread.start()
        assert enough.wait(60)
        process.send_signal(signal.SIGKILL)
        for thread in threads:
            thread.join(60)
    acknowledged = {room for done in lists for room in done}
    assert 300 < len(acknowledged) < 20_000, "it was to be killed in the middle"

    def column(query: str) -> list[str]:
        with opened.read.connect() as connection:
            return list(connection.execute(text(query)).scalars())

    assert acknowledged <= set(column("SELECT room FROM records"))
    assert sorted(column("SELECT room FROM records")) == sorted(column("SELECT room FROM rooms"))
    # What was not acknowledged is sent again, and everything counts once.
    with collector(database_url) as (_, base), httpx.Client(base_url=base) as http:
        sent = max(int(room.split("-")[0]) for room in acknowledged) + 1
        for report in reports[:sent]:
            body, headers = wire.encode(report), {"Content-Type": MSGPACK}
            assert http.post("/v1/reports", content=body, headers=headers).status_code == 200
    rooms = column("SELECT room FROM records")
    assert len(rooms) == len(set(rooms)) >= sent * 10
    opened.dispose()
