"""``GET /rooms`` and ``GET /rooms/{room}``, on both databases, with rooms that were really posted."""

from __future__ import annotations

import time
from typing import Any

import pytest
from support.reports import KEY, Cluster, speaker
from support.rooms import KV
from support.scenes import Scene
from support.serving import Server

from pd_tracer_hooks.wire import EventKind, Stage
from tracer.join.model import Verdict

LLAMA = {"deployment": "llama"}


def ask(server: Server, path: str, status: int = 200, /, **params: Any) -> Any:
    answer = server.http.get(path, params=params)
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "application/json"
    return answer.json()


def names(server: Server, /, **params: Any) -> set[str]:
    return {f"{room['deployment']}/{room['room']}" for room in ask(server, "/rooms", **params)["rooms"]}


@pytest.fixture
def scene(server: Server) -> Scene:
    return Scene(server).play()


ALL = {"llama/good", "llama/bad", "llama/waiting", "qwen/good"}
FILTERS: list[tuple[dict[str, Any], set[str]]] = [
    ({}, ALL),
    ({"deployment": "qwen"}, {"qwen/good"}),
    ({"deployment": "none"}, set()),
    ({"request": "p-bad"}, {"llama/bad"}),
    ({"request": "d-bad"}, {"llama/bad"}),
    ({"request": "bad"}, set()),
    ({"trace": "t-good"}, {"llama/good"}),
    ({"verdict": "mismatch"}, {"llama/bad"}),
    ({"verdict": "pending"}, {"llama/waiting"}),
    ({"verdict": ["pending", "mismatch"]}, {"llama/waiting", "llama/bad"}),
    ({"verdict": "failed"}, set()),
    ({"cause": "unexplained"}, {"llama/bad"}),
    ({"component": "index_k", "verdict": "mismatch"}, {"llama/bad"}),
    ({"component": "kv", "verdict": "mismatch"}, set()),
    ({"component": "index%"}, set()),
    ({"component": "ndex_k"}, set()),
    ({"worker": "p0"}, {"llama/good", "llama/bad", "llama/waiting"}),
    ({"worker": "d0"}, {"llama/good", "llama/bad"}),
    ({"worker": "d0", "deployment": "qwen"}, set()),
    ({"worker": "nobody"}, set()),
    ({"node": "n0"}, ALL),
    ({"node": "n9"}, {"qwen/good"}),
    ({"node": "n0", "worker": "d9"}, {"qwen/good"}),
    ({"node": "nowhere"}, set()),
    ({"server": "D0"}, {"llama/good", "llama/bad"}),
    ({"server": "P0"}, {"llama/good", "llama/bad", "llama/waiting"}),
    ({"prefill": "P0", "decode": "D0"}, {"llama/good", "llama/bad"}),
    ({"decode": "P0"}, set()),
    ({"pair": "P0->D0"}, {"llama/good", "llama/bad"}),
    ({"pair": "P9 → D9"}, {"qwen/good"}),
    ({"run": "graph=on"}, {"llama/good", "llama/bad", "llama/waiting"}),
    ({"run": "graph=on,kv=bf16"}, {"llama/good", "llama/bad", "llama/waiting"}),
    ({"run": "graph=o"}, set()),
    ({"since": "15m"}, ALL),
    ({"since": "2020-01-01", "until": "1h"}, set()),
    ({"until": "2020-01-01T00:00:00Z"}, set()),
    ({"since": f"{time.time() + 3600:.0f}"}, set()),
]


def test_filters(scene: Scene) -> None:
    for params, wanted in FILTERS:
        assert names(scene.server, **params) == wanted, params


WRONG = [
    ({"limit": 0}, "limit"),
    ({"limit": 1001}, "limit"),
    ({"limit": "many"}, "limit"),
    ({"verdict": "fine"}, "verdict"),
    ({"verdict": ["match", "fine"]}, "verdict"),
    ({"cause": "moon"}, "cause"),
    ({"since": "yesterday"}, "since"),
    ({"until": "-1"}, "until"),
    ({"pair": "P0"}, "pair"),
    ({"pair": "->D0"}, "pair"),
    ({"pair": "P0->D0", "prefill": "P0"}, "pair"),
    ({"cursor": "abc"}, "cursor"),
    ({"request": ""}, "request"),
    ({"worker": "a\0b"}, "worker"),
    ({"node": "n" * 513}, "node"),
    ({"vredict": "mismatch"}, "vredict"),
]


def test_wrong_filters_are_named(server: Server) -> None:
    for params, field in WRONG:
        problem = ask(server, "/rooms", 422, **params)
        assert set(problem) == {"error", "field", "hint"}
        assert problem["field"] == field, params
        assert field in problem["error"]


def test_a_room_in_a_list(scene: Scene) -> None:
    [room] = ask(scene.server, "/rooms", verdict="mismatch")["rooms"]
    assert room.pop("first_seen") <= room.pop("settled_at")
    assert room.pop("last_seen") == pytest.approx(time.time(), abs=60)
    assert room == {
        "room": "bad",
        "deployment": "llama",
        "verdict": "mismatch",
        "cause": "unexplained",
        "summary": "room bad: index_k mismatch, layer 2, head, page 1, pair P0→D0",
        "coverage": "full",
        "components": ["index_k"],
        "prefill_server": "P0",
        "decode_server": "D0",
        "request_prefill": "p-bad",
        "request_decode": "d-bad",
        "trace": "t-bad",
        "run": "kv=bf16,graph=on",
        "settled": True,
        "attempts": 1,
        "revisions": 0,
    }


def test_pages_follow_each_other(server: Server) -> None:
    """Every room appears once, newest first, whatever the page size, and though others come meanwhile."""
    cluster = Cluster()
    for number in range(12):
        server.tell(
            cluster.prefill.report(*(cluster.prefill.look(f"{number}.{i}", Stage.send) for i in "ab"))
        )
    expected = [f"{number}.{i}" for number in reversed(range(12)) for i in "ba"]
    for limit in (1, 5, 8, 24, 100):
        seen: list[str] = []
        cursor: dict[str, str] = {}
        while True:
            page = ask(server, "/rooms", limit=limit, until=time.time() + 60, **cursor)
            seen += [room["room"] for room in page["rooms"]]
            assert len(page["rooms"]) <= limit
            server.tell(cluster.sent(f"new {limit} {len(seen)}"))
            if page["next"] is None:
                break
            cursor = {"cursor": page["next"]}
        assert [room for room in seen if not room.startswith("new")] == expected


def test_pages_of_a_filter(scene: Scene) -> None:
    for verdict in ("mismatch", "pending", "match"):
        cursor: dict[str, str] = {}
        seen = []
        while True:
            page = ask(scene.server, "/rooms", verdict=verdict, limit=1, **cursor)
            seen += page["rooms"]
            if page["next"] is None:
                break
            cursor = {"cursor": page["next"]}
        assert len(seen) == {"mismatch": 1, "pending": 1, "match": 2}[verdict]


def test_one_room(scene: Scene) -> None:
    room = ask(scene.server, "/rooms/bad")
    assert room["summary"] == "room bad: index_k mismatch, layer 2, head, page 1, pair P0→D0"
    assert (room["verdict"], room["cause"], room["settled"]) == ("mismatch", "unexplained", True)
    assert (room["request_prefill"], room["request_decode"]) == ("p-bad", "d-bad")
    assert (room["trace"], room["run"]) == ("t-bad", "kv=bf16,graph=on")
    assert room["workers"] == [
        {"worker": "p0", "side": "prefill", "server": "P0", "node": "n0"},
        {"worker": "d0", "side": "decode", "server": "D0", "node": "n1"},
    ]
    components = {part["component"]: part for part in room["components"]}
    assert components["kv"]["verdict"] == "match"
    bad = components["index_k"]
    where = bad["where"]
    assert (where["regions"], where["layers"], where["page_runs"]) == (["head", "body"], [2], [[1, 1]])
    assert bad["prefill"]["finals"]["head"] != bad["decode"]["finals"]["head"]
    assert bad["prefill"]["finals"]["tail"] == bad["decode"]["finals"]["tail"]
    [attempt] = room["attempts"]
    [transfer] = attempt["transfers"]
    assert (transfer["key"], transfer["prefill_workers"], transfer["decode_workers"]) == (KEY, ["p0"], ["d0"])
    assert {part["component"] for part in transfer["components"]} == {"kv", "index_k"}


def test_the_timeline_of_a_room(scene: Scene) -> None:
    timeline = ask(scene.server, "/rooms/bad")["timeline"]
    assert [(entry["side"], entry["kind"], entry["stage"]) for entry in timeline] == [
        ("decode", "event", "opened"),
        ("prefill", "observation", "send"),
        ("decode", "observation", "receive"),
    ]
    assert timeline[0]["peer"] == "10.0.0.1:8998"
    assert all(entry["keys"] == [KEY] for entry in timeline)
    assert [entry["received"] for entry in timeline] == sorted(entry["received"] for entry in timeline)
    assert timeline[1]["tokens"] == 30
    [kv, _] = timeline[1]["components"]
    assert (kv["name"], kv["pages"], kv["coverage"], kv["layers"]) == ("kv", 8, "full", [0, 1, 2])
    assert kv["runs"] == [[0, 8]]
    assert kv["sums"] == KV.part().sums.hex_list()
    assert kv["cells"] == [6, 6, 24]


def test_the_timeline_of_a_worker_s_batch_is_in_its_order(server: Server) -> None:
    decode = speaker("decode", "d0")
    server.tell(
        decode.report(
            decode.event("1", EventKind.opened),
            decode.look("1", Stage.allocate),
            decode.look("1", Stage.receive),
            decode.look("1", Stage.recheck, look=1),
        )
    )
    timeline = ask(server, "/rooms/1")["timeline"]
    assert [(entry["stage"], entry["seq"], entry["look"]) for entry in timeline] == [
        ("opened", 1, 0),
        ("allocate", 2, 0),
        ("receive", 3, 0),
        ("recheck", 4, 1),
    ]


def test_several_deployments_have_the_room(scene: Scene) -> None:
    problem = ask(scene.server, "/rooms/good", 409)
    assert problem["deployments"] == ["llama", "qwen"]
    assert problem["field"] == "deployment"
    assert problem["hint"] == "say which: /rooms/good?deployment=llama"
    for deployment in problem["deployments"]:
        assert ask(scene.server, "/rooms/good", deployment=deployment)["deployment"] == deployment


def test_no_such_room(scene: Scene) -> None:
    problem = ask(scene.server, "/rooms/bad", 404, deployment="qwen")
    assert problem["error"] == "no room 'bad' in deployment 'qwen'"
    assert problem["field"] == "room"
    assert "GET /rooms" in problem["hint"]
    assert ask(scene.server, "/rooms/18446744073709551615", 404)["field"] == "room"
    assert ask(scene.server, "/rooms/bad", 422, deploymnet="qwen")["field"] == "deploymnet"
    assert ask(scene.server, "/rooms/a%00b", 422)["field"] == "room"


ODD = [
    "a/b",
    "/a",
    "a?b=c",
    "a b",
    "%41",
    "größe",
    "line\nbreak\n",
    "..",
    "🙂",
    "<script>alert(1)</script>",
    "x" * 512,
    "18446744073709551615",
]


def test_rooms_with_odd_characters(server: Server) -> None:
    from urllib.parse import quote

    cluster = Cluster()
    server.tell(cluster.prefill.report(*(cluster.prefill.look(room, Stage.send) for room in ODD)))
    for room in ODD:
        assert ask(server, f"/rooms/{quote(room, safe='').replace('.', '%2E')}")["room"] == room
    assert {room["room"] for room in ask(server, "/rooms")["rooms"]} == set(ODD)


def test_a_number_is_never_larger_than_javascript_s(scene: Scene) -> None:
    def numbers(value: Any) -> list[float]:
        if isinstance(value, dict):
            return [number for item in value.values() for number in numbers(item)]
        if isinstance(value, list):
            return [number for item in value for number in numbers(item)]
        return [value] if isinstance(value, int | float) else []

    for path in ("/rooms/bad", "/rooms", "/summary", "/workers"):
        found = numbers(ask(scene.server, path))
        assert found
        assert max(found) < 2**53


def test_a_late_report_moves_a_room_to_the_front(scene: Scene) -> None:
    rooms = [room["room"] for room in ask(scene.server, "/rooms", **LLAMA)["rooms"]]
    assert rooms == ["waiting", "bad", "good"]
    late = scene.llama.decode.look("good", Stage.recheck)
    scene.server.tell(scene.llama.decode.report(late))
    rooms = [room["room"] for room in ask(scene.server, "/rooms", **LLAMA)["rooms"]]
    assert rooms == ["good", "waiting", "bad"]


def test_every_verdict_can_be_asked_for(server: Server) -> None:
    for verdict in Verdict:
        assert ask(server, "/rooms", verdict=verdict.value) == {"rooms": [], "next": None}
