"""``GET /summary`` and ``GET /workers``, on both databases."""

from __future__ import annotations

import time
from typing import Any

import pytest
from sqlalchemy import insert
from support.reports import Cluster
from support.rooms import INDEX_K, KV
from support.scenes import Scene
from support.serving import Server

from pd_tracer_hooks.wire import Stage
from tracer.store.schema import rollups


def ask(server: Server, path: str, status: int = 200, /, **params: Any) -> Any:
    answer = server.http.get(path, params=params)
    assert answer.status_code == status, answer.text
    return answer.json()


@pytest.fixture
def scene(server: Server) -> Scene:
    return Scene(server).play()


def tally(matches: int, mismatches: int = 0) -> dict[str, Any]:
    compared = matches + mismatches
    counts = {"match": matches, "mismatch": mismatches}
    return {
        "counts": {verdict: count for verdict, count in counts.items() if count},
        "compared": compared,
        "match_ratio": matches / compared,
        "mismatch_ratio": mismatches / compared,
    }


def test_summary(scene: Scene) -> None:
    found = ask(scene.server, "/summary", window="1h")
    assert found["rooms"] == tally(2, 1)
    assert found["components"] == [
        {"component": "index_k", **tally(2, 1)},
        {"component": "kv", **tally(3)},
    ]
    assert found["pairs"] == [
        {
            "deployment": "llama",
            "prefill": "P0",
            "decode": "D0",
            "rooms": tally(1, 1),
            "components": [
                {"component": "index_k", **tally(1, 1)},
                {"component": "kv", **tally(2)},
            ],
        },
        {
            "deployment": "qwen",
            "prefill": "P9",
            "decode": "D9",
            "rooms": tally(1),
            "components": [
                {"component": "index_k", **tally(1)},
                {"component": "kv", **tally(1)},
            ],
        },
    ]
    assert found["pending"]["rooms"] == 1
    assert 0 <= found["pending"]["oldest_age_s"] < 60
    assert found["window_s"] == 3600
    assert found["until"] == pytest.approx(time.time(), abs=60)
    assert found["since"] % 60 == 0
    assert 3600 <= found["until"] - found["since"] <= 3660


def test_summary_of_one_deployment(scene: Scene) -> None:
    found = ask(scene.server, "/summary", deployment="qwen")
    assert found["rooms"] == tally(1)
    assert [pair["deployment"] for pair in found["pairs"]] == ["qwen"]
    assert found["pending"] == {"rooms": 0, "oldest_age_s": None}
    assert found["window_s"] == scene.server.collector.settings.ratio_window_s


def test_nothing_compared_is_no_ratio(server: Server) -> None:
    empty = {"counts": {}, "compared": 0, "match_ratio": None, "mismatch_ratio": None}
    found = ask(server, "/summary")
    assert found["rooms"] == empty
    assert found["components"] == found["pairs"] == []
    cluster = Cluster()
    server.tell(
        cluster.sent("1", components=[KV.part()]), cluster.received("1", components=[KV.part(owned="no")])
    )
    found = ask(server, "/summary")
    assert found["rooms"]["counts"] == {"dropped": 1}
    assert found["rooms"]["compared"] == 0
    assert found["rooms"]["match_ratio"] is found["rooms"]["mismatch_ratio"] is None


def test_a_revision_moves_a_room_from_one_count_to_the_other(server: Server) -> None:
    """And counts from before the window are left out, whatever replica kept them."""
    now = int(time.time() // 60)
    row = {
        "deployment": "llama",
        "prefill_server": "P0",
        "decode_server": "D0",
        "component": "",
        "verdict": "match",
    }
    counts = [(now, "r1", 5), (now, "r2", 4), (now - 1, "r1", -2), (now - 30, "r1", 100)]
    with server.collector.database.write.begin() as connection:
        made = [{**row, "minute": m, "replica": r, "count": n} for m, r, n in counts]
        made.append({**row, "minute": now, "replica": "r2", "count": 2, "verdict": "mismatch"})
        made.append({**row, "minute": now, "replica": "r2", "count": 7, "verdict": "a newer one"})
        connection.execute(insert(rollups), made)
    assert ask(server, "/summary", window="15m")["rooms"] == tally(7, 2)
    assert ask(server, "/summary", window="1h")["rooms"] == tally(107, 2)


WRONG = [
    ("/summary", {"window": "0"}, "window"),
    ("/summary", {"window": "-5m"}, "window"),
    ("/summary", {"window": "2000d"}, "window"),
    ("/summary", {"window": "soon"}, "window"),
    ("/summary", {"windw": "5m"}, "windw"),
    ("/summary", {"deployment": ""}, "deployment"),
    ("/workers", {"side": "left"}, "side"),
    ("/workers", {"seen": "x"}, "seen"),
    ("/workers", {"rank": "1"}, "rank"),
]


def test_wrong_parameters_are_named(server: Server) -> None:
    for path, params, field in WRONG:
        problem = ask(server, path, 422, **params)
        assert problem["field"] == field, params
        assert field in problem["error"]


def test_workers(scene: Scene) -> None:
    found = ask(scene.server, "/workers")["workers"]
    assert [(worker["deployment"], worker["worker"]) for worker in found] == [
        ("llama", "p0"),
        ("llama", "d0"),
        ("qwen", "p9"),
        ("qwen", "d9"),
    ]
    prefill, decode = found[:2]
    assert (prefill["side"], prefill["server"], prefill["node"], prefill["boot"]) == (
        "prefill",
        "P0",
        "n0",
        "p0-1",
    )
    assert prefill["aliases"] == ["10.0.0.1:8998"]
    assert prefill["heartbeat"] == {"state": "active", "uptime_s": 12.5, "queued": 3, "faults": 0}
    assert prefill["manifest"] == [
        {"name": "kv", "moved": True, "layers": 3, "memory": "device", "signature": KV.signature},
        {"name": "index_k", "moved": True, "layers": 2, "memory": "device", "signature": INDEX_K.signature},
    ]
    assert (decode["engine"], decode["engine_version"]) == ("sglang", "0.5.6")
    assert decode["drops"] == {"queue_full": 2}
    assert decode["heartbeat"] is None
    assert found[2]["manifest"] is None
    for worker in found:
        assert 0 <= worker["age_s"] < 60
        assert worker["first_seen"] <= worker["last_seen"]


def test_workers_by_filter(scene: Scene) -> None:
    cases: list[tuple[dict[str, str], set[str]]] = [
        ({"deployment": "qwen"}, {"p9", "d9"}),
        ({"side": "decode"}, {"d0", "d9"}),
        ({"server": "P0"}, {"p0"}),
        ({"node": "n0"}, {"p0", "p9"}),
        ({"node": "n0", "deployment": "qwen"}, {"p9"}),
        ({"seen": "1h"}, {"p0", "d0", "p9", "d9"}),
        ({"seen": "0"}, set()),
        ({"node": "none"}, set()),
    ]
    for params, wanted in cases:
        found = ask(scene.server, "/workers", **params)["workers"]
        assert {worker["worker"] for worker in found} == wanted, params


def test_a_worker_that_came_back_shows_its_new_boot(scene: Scene) -> None:
    import msgspec

    decode = scene.llama.decode
    decode.worker = msgspec.structs.replace(decode.worker, boot="d0-2")
    scene.server.tell(decode.report(decode.look("again", Stage.receive)))
    [worker] = ask(scene.server, "/workers", server="D0")["workers"]
    assert worker["boot"] == "d0-2"
    assert worker["manifest"] is None
    assert worker["drops"] == {}
