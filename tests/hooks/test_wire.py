"""The wire: both encodings, what old and new versions do with each other, and what is refused."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from pd_tracer_hooks import WIRE_VERSION, wire
from pd_tracer_hooks.u64s import U64s
from pd_tracer_hooks.wire import JSON, MSGPACK, Report, decoder, encode

WORKER = wire.Worker(id="w", boot="b", deployment="d", side=wire.Side.prefill, server="s", aliases=["a"])
COMPONENT = wire.ComponentDigest(
    name="kv",
    signature="0" * 15 + "f",
    pages=3,
    k=2,
    coverage=wire.Coverage.full,
    layers=[0, 60],
    runs=[(0, 3)],
    sums=U64s.of([2**64 - 1, 0, 1]),
    cells=[4, 4, 6],
    buckets=U64s.of([7, 8, 9]),
    layer_sums=U64s.of(range(6)),
    physical=[(17, 3)],
)
FULL = Report(
    wire=WIRE_VERSION,
    worker=WORKER,
    batch="x",
    sent_at=1.5,
    observations=[
        wire.Observation(
            room="18446744073709551615",
            keys=["0123456789abcdef"],
            stage=wire.Stage.send,
            seq=1,
            at=2.5,
            components=[COMPONENT],
        )
    ],
    events=[wire.Event(kind=wire.EventKind.opened, room="räume/😀", seq=2, at=2.5, reason="because")],
    manifests=[
        wire.Manifest(
            seq=3, at=2.5, components=[wire.ManifestComponent(name="kv", signature="0" * 16, layers=[0])]
        )
    ],
    details=[
        wire.Detail(
            room="r",
            stage=wire.Stage.receive,
            seq=4,
            at=2.5,
            component="kv",
            layers=[0],
            runs=[(0, 2)],
            digests=U64s.of([2**63, 5]),
            order_free=U64s.of([6, 7]),
        )
    ],
    heartbeat=wire.Heartbeat(state=wire.HooksState.dormant, uptime_s=3.0, queued=4),
    drops={"queue_full": 5},
)


@pytest.mark.parametrize("kind", [JSON, MSGPACK])
def test_a_report_comes_back_as_it_was(kind: str) -> None:
    assert decoder(Report, kind).decode(encode(FULL, kind)) == FULL


def test_both_encodings_say_the_same() -> None:
    from_json = decoder(Report, JSON).decode(encode(FULL, JSON))
    from_msgpack = decoder(Report, MSGPACK).decode(encode(FULL, MSGPACK))
    assert encode(from_json, MSGPACK) == encode(FULL, MSGPACK)
    assert encode(from_msgpack, JSON) == encode(FULL, JSON)


def test_sums_are_hex_in_json_and_bytes_in_msgpack() -> None:
    as_json = json.loads(encode(FULL, JSON))["observations"][0]["components"][0]
    assert as_json["sums"] == ["f" * 16, "0" * 16, "0" * 15 + "1"]
    as_msgpack = msgspec.msgpack.decode(encode(FULL, MSGPACK))["observations"][0]["components"][0]
    assert as_msgpack["sums"] == b"\xff" * 8 + bytes(8) + b"\x01" + bytes(7)


@pytest.mark.parametrize("kind", [JSON, MSGPACK])
def test_fields_of_a_newer_release_are_ignored_everywhere(kind: str) -> None:
    tree = msgspec.json.decode(encode(FULL, JSON))

    def add(node: Any) -> None:
        if isinstance(node, dict):
            for child in list(node.values()):
                add(child)
            if "queue_full" not in node:  # a map of counts has no fields
                node["from_the_future"] = {"anything": [1, None, "x"]}
        elif isinstance(node, list):
            for child in node:
                add(child)

    add(tree)
    if kind == MSGPACK:  # its arrays of sums are bytes
        component, detail = tree["observations"][0]["components"][0], tree["details"][0]
        arrays = (component, ("sums", "buckets", "layer_sums")), (detail, ("digests", "order_free"))
        for holder, names in arrays:
            holder |= {name: bytes(U64s.from_wire(holder[name])) for name in names}
    body = msgspec.json.encode(tree) if kind == JSON else msgspec.msgpack.encode(tree)
    assert decoder(Report, kind).decode(body) == FULL


def test_a_report_with_only_what_is_required() -> None:
    body = {
        "wire": "0.1",
        "worker": {"id": "w", "boot": "b", "deployment": "d", "side": "decode", "server": "s"},
    }
    report = decoder(Report, JSON).decode(json.dumps(body))
    assert (report.observations, report.events, report.drops, report.heartbeat) == ([], [], {}, None)


@pytest.mark.parametrize(
    ("theirs", "mine", "taken"),
    [
        ("0.5", "0.5", True),
        ("0.4", "0.5", True),
        ("0.3", "0.5", True),
        ("0.2", "0.5", False),
        ("0.6", "0.5", True),
        ("0.7", "0.5", False),
        ("1.5", "0.5", False),
        ("0.0", "0.1", True),
        ("1.0", "1.0", True),
    ],
)
def test_two_minor_releases_back_and_one_ahead_are_taken(theirs: str, mine: str, taken: bool) -> None:
    assert wire.understands(theirs, mine) is taken


@pytest.mark.parametrize(
    ("path", "value", "says"),
    [
        (("wire",), "one", "$.wire"),
        (("worker", "side"), "both", "$.worker.side"),
        (("worker", "deployment"), "", "$.worker.deployment"),
        (("observations", 0, "room"), 17, "$.observations[0].room"),
        (("observations", 0, "room"), "", "$.observations[0].room"),
        (("observations", 0, "keys"), ["short"], "$.observations[0].keys[0]"),
        (("observations", 0, "stage"), "sent", "$.observations[0].stage"),
        (("observations", 0, "seq"), -1, "$.observations[0].seq"),
        (("observations", 0, "at"), "now", "$.observations[0].at"),
        (("observations", 0, "components"), [], "$.observations[0].components"),
        (("observations", 0, "components", 0, "pages"), 2**40, "components[0].pages"),
        (("observations", 0, "components", 0, "sums"), ["12"], "components[0].sums"),
        (("observations", 0, "components", 0, "cells"), [1, 2], "components[0].cells"),
        (("events", 0, "kind"), "vanished", "$.events[0].kind"),
        (("drops",), {"x": -1}, "$.drops"),
    ],
)
def test_a_wrong_value_is_refused_by_the_name_of_its_field(
    path: tuple[str | int, ...], value: Any, says: str
) -> None:
    tree = json.loads(encode(FULL, JSON))
    node = tree
    for step in path[:-1]:
        node = node[step]
    node[path[-1]] = value
    with pytest.raises(msgspec.ValidationError) as caught:
        decoder(Report, JSON).decode(json.dumps(tree))
    assert says in str(caught.value)


def test_unknown_content_types_and_foreign_values_are_refused() -> None:
    with pytest.raises(ValueError, match="text/plain"):
        encode(FULL, "text/plain")
    with pytest.raises(ValueError, match="text/plain"):
        decoder(Report, "text/plain")
    for kind in (JSON, MSGPACK):
        with pytest.raises(TypeError, match="no place on the wire"):
            encode(Ellipsis, kind)
