"""What the hooks cost on the engine's thread, and that none of them waits for a device."""

from __future__ import annotations

import statistics
import time
from pathlib import Path

from engines.sglang.engine_env import Peer, environment, pair, traced
from engines.sglang.moves import Move, move
from support.serving import Server

ROOMS = 20


def moves(prefill: Peer, decode: Peer) -> float:
    """Seconds a room, of rooms of four chunks."""
    times = []
    for number in range(ROOMS):
        it = Move(
            100 + number, "dsa", [2, 3, 4, 5, 6, 7, 8, 9], [9, 8, 7, 6, 5, 4, 3, 2], 64 * 7 + 9, [2, 2, 2, 2]
        )
        began = time.perf_counter()
        assert move(prefill, decode, it) == ("success", "success")
        times.append(time.perf_counter() - began)
        decode.do("release", room=it.room)
    return statistics.median(times)


def test_cost_by_handler_and_no_call_that_waits(collector: Server, tmp_path: Path) -> None:
    """Prints the time of each handler on the engine's thread beside a room's, with hooks and without."""
    (tmp_path / "off").mkdir()
    with pair("mooncake", "dsa", environment(), tmp_path / "off") as (prefill, decode):
        without = moves(prefill, decode)
    with pair("mooncake", "dsa", traced(collector.url, PEER_WATCH="1"), tmp_path) as (prefill, decode):
        traced_room = moves(prefill, decode)
        cost = {**prefill.do("cost"), **decode.do("cost")}
        for peer in (prefill, decode):
            assert peer.do("waits") == {}
    print("\na room of 8 pages x 3 layers (kv 73,728 B, index_k 8,448 B), full coverage on the CPU:")
    print(f"{1e3 * without:.1f} ms without hooks, {1e3 * traced_room:.1f} ms with")
    print(f"{'handler':<18}{'calls':>7}{'median µs':>11}{'p95 µs':>9}")
    for name, times in sorted(cost.items()):
        p95 = sorted(times)[int(0.95 * (len(times) - 1))]
        print(f"{name:<18}{len(times):>7}{statistics.median(times):>11.0f}{p95:>9.0f}")
    # What involves no digest must be out of the way at once, on the slowest of machines too.
    for name in ("opened", "sender_ready", "status", "pages_freed", "tokens_freed"):
        assert statistics.median(cost.get(name, [0.0])) < 2000
