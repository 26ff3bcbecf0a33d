"""The engine's own pools, managers, senders and receivers in two processes, hooked by its plugin loader."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from engines.sglang.engine_env import eventually, pair, traced
from engines.sglang.moves import Move, move, verdict
from support.serving import Server

COMPONENTS = {
    "mha": {"k", "v"},
    "mla": {"kv"},
    "dsa": {"kv", "index_k"},
    "v4": {"c4_kv", "index_k", "c128_kv", "swa", "state_c4", "index_state_c4", "state_c128"},
}
#: Pages of one chunked prompt with a partial last page, in each pool's page size.
ROOMS = {
    "mha": ([3, 5, 7, 8, 20], [40, 11, 12, 2, 9], 16 * 4 + 5, [2, 2, 1]),
    "mla": ([3, 5, 7], [4, 1, 2], 64 * 2 + 33, [1, 2]),
    "dsa": ([3, 5, 7, 9], [2, 4, 6, 8], 64 * 3 + 33, [2, 2]),
    "v4": ([1, 2, 3], [3, 1, 2], 256 * 2 + 131, [1, 2]),
}


@pytest.mark.parametrize("kind", ["mha", "mla", "dsa", "v4"])
def test_every_pool_over_mooncake(collector: Server, tmp_path: Path, kind: str) -> None:
    """Chunked rooms match in every component; one flipped bit is found at its page and layer."""
    source, target, tokens, chunks = ROOMS[kind]
    with pair("mooncake", kind, traced(collector.url), tmp_path) as (prefill, decode):
        for peer in (prefill, decode):
            state = peer.do("attached")
            assert state["process"], peer.log()
            assert state["missing"] == {}
        for number in range(3):
            it = Move(101 + number, kind, source, target, tokens, chunks, aux=number + 1)
            assert move(prefill, decode, it) == ("success", "success")
            body = verdict(collector, it.room, "match", 2 + 8)
            assert {c["component"] for c in body["components"]} == COMPONENTS[kind]
            assert body["coverage"] == "full"
            decode.do("release", room=it.room)
        bad = Move(200, kind, source, target, tokens, chunks, aux=5)
        assert move(prefill, decode, bad, {"buffer": 1, "page": target[1], "byte": 3}) == (
            "success",
            "success",
        )
        body = verdict(collector, 200, "mismatch")
        [hurt] = [c for c in body["components"] if c["verdict"] == "mismatch"]
        assert hurt["where"]["page_runs"] == [[1, 1]]
        assert len(hurt["where"]["layers"]) == 1
        for peer in (prefill, decode):
            assert peer.do("attached")["faults"] == 0, peer.log()


def test_verdict_within_two_seconds(collector: Server, tmp_path: Path) -> None:
    with pair("mooncake", "dsa", traced(collector.url), tmp_path) as (prefill, decode):
        for room in range(300, 305):
            began = time.monotonic()
            move(prefill, decode, Move(room, "dsa", *ROOMS["dsa"][:2], ROOMS["dsa"][2]))
            verdict(collector, room, "match", 2.0)
            assert time.monotonic() - began < 5
            decode.do("release", room=room)


def test_prefix_held_by_decode(collector: Server, tmp_path: Path) -> None:
    """Only the suffix travels; both sides say at which logical page it starts."""
    with pair("mooncake", "mha", traced(collector.url), tmp_path) as (prefill, decode):
        it = Move(400, "mha", [10, 11, 12], [30, 31, 35], 16 * 2 + 3, [2, 1], prefix=64)
        assert move(prefill, decode, it) == ("success", "success")
        body = verdict(collector, 400, "match")
        looks = [entry for entry in body["timeline"] if entry["kind"] == "observation"]
        assert {entry["stage"] for entry in looks} >= {"send", "receive", "admit"}
        assert {entry["tokens"] for entry in looks} <= {35, None}


def test_reused_room_is_another_attempt(collector: Server, tmp_path: Path) -> None:
    with pair("mooncake", "mha", traced(collector.url), tmp_path) as (prefill, decode):
        for target in ([30, 31], [32, 33]):
            move(prefill, decode, Move(500, "mha", [10, 11], target, 20))
            decode.do("release", room=500)

        def verdicts() -> bool:
            body = collector.http.get("/rooms/500").json()
            return [attempt["verdict"] for attempt in body.get("attempts", ())] == ["match", "match"]

        eventually(verdicts)


def test_aborted_before_it_was_sent(collector: Server, tmp_path: Path) -> None:
    with pair("mooncake", "mha", traced(collector.url), tmp_path) as (prefill, decode):
        decode.do("receiver", room=600)
        prefill.do("sender", room=600)
        decode.do("open", room=600, pages=[30, 31], aux=1)
        decode.do("abort", room=600)
        assert verdict(collector, 600)["verdict"] == "aborted"


def test_every_pool_has_rechecks_and_release(collector: Server, tmp_path: Path) -> None:
    with pair("mooncake", "dsa", traced(collector.url), tmp_path) as (prefill, decode):
        move(prefill, decode, Move(700, "dsa", *ROOMS["dsa"]))

        def stages() -> bool:
            body = collector.http.get("/rooms/700").json()
            seen = [(e["stage"], e["look"]) for e in body.get("timeline", ()) if e["kind"] == "observation"]
            wanted = {("send", 0), ("release", 0), ("receive", 0), ("admit", 0)}
            return {*wanted, *(("recheck", n) for n in range(3))} <= set(seen)

        eventually(stages, 5)
        assert verdict(collector, 700)["verdict"] == "match"


@pytest.mark.parametrize("kind", ["mha", "dsa"])
def test_every_pool_over_nixl(collector: Server, tmp_path: Path, kind: str) -> None:
    source, target, tokens, chunks = ROOMS[kind]
    with pair("nixl", kind, traced(collector.url), tmp_path) as (prefill, decode):
        for number in range(3):
            it = Move(800 + number, kind, source, target, tokens, chunks, aux=number + 1)
            assert move(prefill, decode, it) == ("success", "success")
            body = verdict(collector, it.room, "match")
            assert {c["component"] for c in body["components"]} == COMPONENTS[kind]
            decode.do("release", room=it.room)


def test_cached_prefix_waits_where_mooncake_waits(collector: Server, tmp_path: Path) -> None:
    """The forward that fills the first chunk ends after it was handed over: what is read is what it wrote."""
    with pair("mooncake", "mha", traced(collector.url), tmp_path) as (prefill, decode):
        it = Move(900, "mha", [3, 5, 7], [40, 11, 12], 40, [2, 1], early=12345)
        assert move(prefill, decode, it) == ("success", "success")
        verdict(collector, 900, "match")


def test_cached_prefix_sent_early_by_nixl(collector: Server, tmp_path: Path) -> None:
    """NIXL's sender ignores the event: what decode received is what the pages held before the forward."""
    with pair("nixl", "mha", traced(collector.url), tmp_path) as (prefill, decode):
        it = Move(901, "mha", [3, 5, 7], [40, 11, 12], 40, [2, 1], early=12345)
        assert move(prefill, decode, it) == ("success", "success")

        def looked_twice() -> bool:
            timeline = collector.http.get("/rooms/901").json().get("timeline", ())
            looks = [e for e in timeline if e["kind"] == "observation" and e["stage"] == "send"]
            parts = [(e["look"], e["components"][0]) for e in looks]
            early = {look: part["sums"] for look, part in parts if part["runs"] == [[0, 2]]}
            return set(early) == {0, 1} and early[0] != early[1]

        eventually(looked_twice)
        body = verdict(collector, 901)
        assert body["cause"] == "sent_early"


def test_without_a_whole_row_the_last_page_does_not_count(collector: Server, tmp_path: Path) -> None:
    """100 tokens in the last page fill no row of a component that keeps one row for 128."""
    with pair("mooncake", "v4", traced(collector.url), tmp_path) as (prefill, decode):
        it = Move(902, "v4", [1, 2, 3], [3, 1, 2], 256 * 2 + 100, [1, 2])
        assert move(prefill, decode, it) == ("success", "success")
        body = verdict(collector, 902, "match")
        pages = {c["component"]: c["prefill"]["pages"] for c in body["components"]}
        assert (pages["c4_kv"], pages["c128_kv"]) == (3, 2)
