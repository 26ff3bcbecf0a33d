"""The engine's transfer succeeds whatever happens to our own things, and what is lost is counted."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from engines.sglang.engine_env import Peer, eventually, pair, traced
from engines.sglang.moves import Move, move
from support.serving import Server

MOVED = ("success", "success")


def moves(prefill: Peer, decode: Peer, rooms: range) -> None:
    for room in rooms:
        it = Move(room, "mha", [3, 5, 7], [40, 11, 12], 40, [2, 1])
        assert move(prefill, decode, it) == MOVED
        decode.do("release", room=room)


@contextmanager
def hanging_collector() -> Iterator[str]:
    """Takes connections and never answers."""
    held: list[socket.socket] = []
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def accept() -> None:
            while True:
                try:
                    held.append(listener.accept()[0])
                except OSError:
                    return

        thread = threading.Thread(target=accept, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        listener.shutdown(socket.SHUT_RDWR)
    thread.join(5)
    for one in held:
        one.close()


def test_collector_that_hangs(tmp_path: Path) -> None:
    with hanging_collector() as url:
        env = traced(url, PD_TRACER_QUEUE="8", PD_TRACER_TIMEOUT_S="60", PD_TRACER_SHUTDOWN_S="0.2")
        with pair("mooncake", "mha", env, tmp_path) as (prefill, decode):
            moves(prefill, decode, range(100, 110))
            for peer in (prefill, decode):
                state = peer.do("attached")
                assert state["faults"] == 0, peer.log()
                assert state["drops"].get("queue_full", 0) > 0
                print("lost with a collector that hangs:", state["drops"])


@pytest.mark.parametrize("fault", ["digest", "handler"])
def test_our_own_faults(collector: Server, tmp_path: Path, fault: str) -> None:
    env = traced(collector.url, PEER_SABOTAGE=fault)
    with pair("mooncake", "mha", env, tmp_path) as (prefill, decode):
        moves(prefill, decode, range(200, 206))
        for peer in (prefill, decode):
            state = peer.do("attached")
            assert state["faults"] >= 5, state
        row = eventually(
            lambda: _worker(collector, "decode", "heartbeat", lambda beat: beat["faults"] >= 1), 15
        )
        print("told by the worker:", row["heartbeat"])


def test_renamed_argument(collector: Server, tmp_path: Path) -> None:
    """The hook that does not fit is left out and named; the rest works."""
    env = traced(collector.url, PEER_SABOTAGE="renamed")
    with pair("mooncake", "mha", env, tmp_path) as (prefill, decode):
        moves(prefill, decode, range(300, 302))
        state = prefill.do("attached")
        [(path, reason)] = state["missing"].items()
        assert path.endswith("add_transfer_request")
        assert "kv_indices" in reason
        row = eventually(lambda: _worker(collector, "prefill", "setup", lambda setup: setup["missing"]))
        assert row["setup"]["missing"] == {path: reason}


def test_off_wraps_nothing(tmp_path: Path) -> None:
    env = {name: value for name, value in traced("").items() if name != "PD_TRACER_URL"}
    with pair("mooncake", "mha", env, tmp_path) as (prefill, decode):
        moves(prefill, decode, range(400, 401))
        assert prefill.do("attached") == {"process": False}
        assert prefill.do("wrapped") == []


def _worker(collector: Server, side: str, field: str, right: Any) -> dict[str, Any] | None:
    for row in collector.http.get("/workers").json()["workers"]:
        if row["side"] == side and row[field] and right(row[field]):
            found: dict[str, Any] = row
            return found
    return None
