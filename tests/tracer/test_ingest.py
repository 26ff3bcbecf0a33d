"""``POST /v1/reports`` over HTTP: what is refused, how, and that neighbours are kept."""

from __future__ import annotations

import json
import math
import socket
import struct
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest
from support.reports import Cluster, speaker
from support.serving import ANSWERS, Server, serve

from pd_tracer_hooks import WIRE_VERSION, wire
from pd_tracer_hooks.wire import JSON, MSGPACK, Answer, Heartbeat, Problem, Stage
from tracer.settings import Settings

KINDS = pytest.mark.parametrize("kind", [JSON, MSGPACK])
LIMIT = 64 << 10


@pytest.fixture(scope="module")
def sqlite_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """One collector for the whole module: these tests look at answers more than at the store."""
    url = f"sqlite:///{tmp_path_factory.mktemp('ingest')}/test.db"
    settings = Settings(database_url=url, port=0, max_body_bytes=LIMIT, max_batch_records=50)
    with serve(settings) as running:
        yield running


def plain(report: wire.Report) -> dict[str, Any]:
    """A report as plain values, to be spoilt."""
    value: dict[str, Any] = json.loads(wire.encode(report, JSON))
    return value


def pack(value: Any, kind: str) -> bytes:
    """Plain values on the wire. Sums are hex in JSON; in msgpack they are bytes."""
    if kind == JSON:
        return json.dumps(value).encode()

    def packed(item: Any, name: str = "") -> Any:
        if isinstance(item, dict):
            return {key: packed(inner, key) for key, inner in item.items()}
        if isinstance(item, list):
            if name in ("sums", "buckets", "layer_sums"):
                return b"".join(bytes.fromhex(text)[::-1] for text in item)
            return [packed(inner) for inner in item]
        return item

    return msgspec.msgpack.encode(packed(value))


def three(room: str) -> dict[str, Any]:
    prefill = speaker("prefill", f"p-{room}")
    return plain(prefill.report(*(prefill.look(f"{room}-{n}", Stage.send) for n in range(3))))


def answer(response: Any) -> Answer:
    decoded: Answer = ANSWERS[response.headers["content-type"]].decode(response.content)
    return decoded


def problem(response: Any) -> Problem:
    decoded: Problem = wire.decoder(Problem, response.headers["content-type"]).decode(response.content)
    return decoded


@KINDS
def test_the_answer_comes_as_the_report_did(sqlite_server: Server, kind: str) -> None:
    response = sqlite_server.post(Cluster().sent(f"plain-{kind}"), kind)
    assert response.headers["content-type"] == kind
    assert answer(response) == Answer(accepted=1)


def test_accept_names_another_type(sqlite_server: Server) -> None:
    response = sqlite_server.post(speaker("prefill", "p0").report(), MSGPACK, Accept=JSON)
    assert response.json() == {
        "wire": WIRE_VERSION,
        "accepted": 0,
        "duplicate": 0,
        "conflicting": 0,
        "refused": [],
        "wanted": [],
    }


def test_a_heartbeat_alone_is_taken(sqlite_server: Server) -> None:
    worker = speaker("decode", "heart")
    assert sqlite_server.post(worker.report(heartbeat=Heartbeat(queued=3))).status_code == 200
    [(heartbeat,)] = sqlite_server.sql("SELECT heartbeat FROM workers WHERE worker = 'heart'")
    assert json.loads(heartbeat)["queued"] == 3


SPOILT: list[tuple[str, Any, str]] = [
    ("seq", -1, "seq"),
    ("seq", "x", "seq"),
    ("seq", 1 << 60, "seq"),
    ("room", 4711, "room"),
    ("room", "", "room"),
    ("room", "x" * 513, "room"),
    ("room", "a\x00b", "room"),
    ("at", -1.0, "at"),
    ("at", 9e10, "at"),
    ("at", "now", "at"),
    ("stage", "teleport", "stage"),
    ("stage", "receive", "stage"),
    ("keys", ["XYZ"], "keys[0]"),
    ("look", 256, "look"),
    ("components", [], "components"),
    ("components", None, "components"),
    ("components.pages", -1, "components[0].pages"),
    ("components.pages", 1 << 40, "components[0].pages"),
    ("components.sums", ["0" * 16] * 2, "components[0].sums"),
    ("components.sums", [], "components[0].sums"),
    ("components.cells", [1, 2], "components[0].cells"),
    ("components.cells", [-1, 6, 24], "components[0].cells[0]"),
    ("components.layers", [70_000], "components[0].layers[0]"),
    ("components.runs", [[0]], "components[0].runs[0]"),
    ("components.runs", [[0, 1 << 30]], "components[0].runs[0][1]"),
    ("components.coverage", "most", "components[0].coverage"),
    ("components.signature", "short", "components[0].signature"),
    ("components.buckets", ["1" * 16], "components[0].buckets"),
]


@KINDS
@pytest.mark.parametrize(("path", "value", "field"), SPOILT, ids=lambda value: f"{value!r:.30}")
def test_one_bad_record_costs_no_neighbour(
    sqlite_server: Server, kind: str, path: str, value: Any, field: str, request: pytest.FixtureRequest
) -> None:
    report = three(request.node.name.encode("ascii", "replace").decode().replace("\x00", "")[:200])
    record = report["observations"][1]
    if path.startswith("components."):
        record["components"][0][path.removeprefix("components.")] = value
    else:
        record[path] = value
    response = sqlite_server.post(pack(report, kind), kind)
    assert response.status_code == 200, response.content
    got = answer(response)
    assert got.accepted == 2
    assert [(r.kind.value, r.index, r.field) for r in got.refused] == [("observations", 1, field)]
    assert got.refused[0].reason


@KINDS
def test_a_missing_field_is_named(sqlite_server: Server, kind: str) -> None:
    report = three(f"missing-{kind}")
    del report["observations"][0]["seq"]
    [refusal] = answer(sqlite_server.post(pack(report, kind), kind)).refused
    assert "seq" in refusal.reason
    assert refusal.index == 0


@KINDS
def test_all_refused_is_422_with_the_same_body(sqlite_server: Server, kind: str) -> None:
    report = three(f"all-{kind}")
    for record in report["observations"]:
        record["seq"] = -1
    response = sqlite_server.post(pack(report, kind), kind)
    assert response.status_code == 422
    got = answer(response)
    assert (got.accepted, [refusal.index for refusal in got.refused]) == (0, [0, 1, 2])


@KINDS
@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"worker": None}, "worker"),
        ({"worker": {"id": ""}}, "worker.id"),
        ({"worker": {"side": "middle"}}, "worker.side"),
        ({"worker": {"rank": -1}}, "worker.rank"),
        ({"worker": {"deployment": "\x00"}}, "worker.deployment"),
        ({"observations": {}}, "observations"),
        ({"drops": {"full": -1}}, "drops"),
        ({"heartbeat": {"uptime_s": -1}}, "heartbeat.uptime_s"),
        ({"sent_at": 9e10}, "sent_at"),
        ({"wire": "one"}, "wire"),
        ({"wire": 1}, "wire"),
    ],
)
def test_bad_envelopes_name_the_field(
    sqlite_server: Server, kind: str, changes: dict[str, Any], field: str
) -> None:
    report = plain(speaker("prefill", "p0").report())
    for name, value in changes.items():
        report[name] = {**report[name], **value} if name == "worker" and value else value
    response = sqlite_server.post(pack(report, kind), kind)
    assert response.status_code == 422, response.content
    assert problem(response).field.startswith(field)


@pytest.mark.parametrize("version", ["1.0", "0.3", "99.0"])
def test_versions_that_are_not_understood(sqlite_server: Server, version: str) -> None:
    """Whatever else looks wrong in them may only be new."""
    body = {"wire": version, "worker": "of another age"}
    response = sqlite_server.post(json.dumps(body).encode(), JSON)
    assert response.status_code == 422
    told = problem(response)
    assert told.field == "wire"
    assert WIRE_VERSION in told.error + told.hint


def test_the_next_minor_and_unknown_fields_are_taken(sqlite_server: Server) -> None:
    major, minor = map(int, WIRE_VERSION.split("."))
    report = three("next")
    report.update(wire=f"{major}.{minor + 1}", novelty={"a": [1]})
    report["observations"][0]["novelty"] = "x"
    assert answer(sqlite_server.post(pack(report, JSON), JSON)).accepted == 3


@pytest.mark.parametrize(
    ("kind", "body"),
    [
        (JSON, b""),
        (JSON, b"{"),
        (JSON, b"\xff\xfe"),
        (JSON, b'{"wire": "0.1"} trailing'),
        (JSON, b'{"a":' + b"[" * 30_000),
        (JSON, b'{"a":' * 10_000),
        (MSGPACK, b""),
        (MSGPACK, b"\xc1"),
        (MSGPACK, b"\x81\xa1a" + b"\x91" * 30_000),
        (MSGPACK, b"\xdf\xff\xff\xff\xff"),
        (MSGPACK, b"\x81\xa4wire\xa2\xff\xfe"),
    ],
    ids=lambda value: f"{value!r:.24}",
)
def test_malformed_bodies(sqlite_server: Server, kind: str, body: bytes) -> None:
    response = sqlite_server.post(body, kind)
    assert response.status_code == 400, response.content
    assert problem(response).error


@KINDS
@pytest.mark.parametrize("value", [1, "text", [], True, None, 1.5])
def test_bodies_that_are_no_object(sqlite_server: Server, kind: str, value: Any) -> None:
    assert sqlite_server.post(pack(value, kind), kind).status_code == 422


@pytest.mark.parametrize("bits", [math.nan, math.inf])
def test_msgpack_can_say_what_json_cannot(sqlite_server: Server, bits: float) -> None:
    report = three(f"float-{bits}")
    body = pack(report, MSGPACK)
    at = struct.pack(">d", report["observations"][1]["at"])
    assert body.count(at) == 1
    got = answer(sqlite_server.post(body.replace(at, struct.pack(">d", bits)), MSGPACK))
    assert (got.accepted, [refusal.field for refusal in got.refused]) == (2, ["at"])


@KINDS
def test_bytes_that_are_no_text_cost_one_record(sqlite_server: Server, kind: str) -> None:
    """An encoded lone surrogate is no UTF-8."""
    report = three(f"utf-{kind}")
    report["observations"][1]["room"] = "spoilt"
    body, name = pack(report, kind), b"spoilt"
    assert body.count(name) == 1
    got = answer(sqlite_server.post(body.replace(name, b"\xed\xa0\x80" + name[3:]), kind))
    assert (got.accepted, [refusal.index for refusal in got.refused]) == (2, [1])


@pytest.mark.parametrize("kind", ["", "text/plain", "application/x-msgpack", "application/jsonx"])
def test_other_content_types(sqlite_server: Server, kind: str) -> None:
    response = sqlite_server.http.post("/v1/reports", content=b"{}", headers={"Content-Type": kind})
    assert response.status_code == 415
    assert MSGPACK in problem(response).hint
    assert JSON in problem(response).hint


def test_parameters_of_the_content_type_are_fine(sqlite_server: Server) -> None:
    body = wire.encode(speaker("prefill", "p0").report(), JSON)
    headers = {"Content-Type": "Application/JSON; charset=utf-8"}
    assert sqlite_server.http.post("/v1/reports", content=body, headers=headers).status_code == 200


def test_content_encoding_is_refused(sqlite_server: Server) -> None:
    response = sqlite_server.post(b"\x1f\x8b", JSON, **{"Content-Encoding": "gzip"})
    assert (response.status_code, problem(response).field) == (415, "Content-Encoding")


@pytest.mark.parametrize("chunked", [False, True])
@pytest.mark.parametrize("times", [1, 3])
def test_too_large_a_body(sqlite_server: Server, chunked: bool, times: int) -> None:
    """Also without a Content-Length, and the client hears it rather than a broken connection."""
    body = b"x" * (LIMIT * times + 1)
    content: Any = (body[at : at + 8192] for at in range(0, len(body), 8192)) if chunked else body
    response = sqlite_server.http.post("/v1/reports", content=content, headers={"Content-Type": JSON})
    assert response.status_code == 413
    assert "halves" in problem(response).hint


def test_too_many_records(sqlite_server: Server) -> None:
    prefill = speaker("prefill", "many")
    events = [prefill.event(str(n), wire.EventKind.started) for n in range(51)]
    response = sqlite_server.post(prefill.report(*events))
    assert (response.status_code, "at most 50" in problem(response).error) == (413, True)


def test_a_client_that_goes_away_costs_nothing(sqlite_server: Server) -> None:
    host, port = sqlite_server.http.base_url.host, sqlite_server.http.base_url.port
    assert port is not None
    with socket.create_connection((host, port)) as connection:
        connection.sendall(
            b"POST /v1/reports HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
            b"Content-Length: 1000\r\n\r\n{"
        )
    assert sqlite_server.http.get("/healthz").json() == {"ok": True, "problems": []}


def test_refusals_are_counted(sqlite_server: Server) -> None:
    def count(reason: str) -> float:
        return sqlite_server.metric("pd_tracer_refusals_total", reason=reason) or 0

    before = count("malformed"), count("record")
    sqlite_server.post(b"{", JSON)
    report = three("counted")
    report["observations"][0]["seq"] = -1
    sqlite_server.post(pack(report, JSON), JSON)
    assert (count("malformed"), count("record")) == (before[0] + 1, before[1] + 1)


@pytest.mark.parametrize("room", ["a/b?c#d", "ünï", "\n", "'; DROP TABLE rooms; --", "😀" * 128, " ", "%00"])
def test_odd_rooms_are_stored_as_they_are(server: Server, room: str) -> None:
    cluster = Cluster()
    server.tell(cluster.sent(room), cluster.received(room))
    assert server.verdict(room) == "match"


def test_the_longest_names_fit_the_indexes(server: Server) -> None:
    """4 bytes a character: PostgreSQL's index rows hold 2.7 kB, and random text cannot be compressed."""
    import random

    rng = random.Random(1)

    def wide(count: int) -> str:
        return "".join(chr(rng.randrange(0x10000, 0x10FFFF)) for _ in range(count))

    names = {"deployment": wide(64), "server": wide(64), "boot": wide(64)}
    prefill = speaker("prefill", wide(64), **names)
    record = prefill.look(wide(128), Stage.send, peer=wide(64), request=wide(256), trace=wide(256))
    server.tell(prefill.report(record))
