"""Whatever arrives at /v1/reports, the process stays up, answers in words, and keeps the good neighbours."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.serving import Server, serve

from pd_tracer_hooks import WIRE_VERSION
from pd_tracer_hooks.wire import JSON, MSGPACK
from tracer.settings import Settings

#: Bounded in number and so in time: about ten seconds for the whole module.
FUZZ = settings(
    max_examples=150,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
REFUSALS = {400, 409, 413, 415, 422}


@pytest.fixture(scope="module")
def collector(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    database: Path = tmp_path_factory.mktemp("fuzz") / "fuzz.db"
    with serve(Settings(database_url=f"sqlite:///{database}", port=0)) as running:
        yield running


def observation(room: str = "good", seq: int = 1, **changes: Any) -> dict[str, Any]:
    component = {
        "name": "index_k",
        "signature": "cfd893a7291743bc",
        "pages": 2,
        "k": 4,
        "coverage": "full",
        "layers": [3, 7],
        "runs": [[0, 2]],
        "sums": ["51ada674fe2f0269"] * 3,
        "cells": [4, 4, 4],
    }
    record = {
        "room": room,
        "keys": ["73bfee68b4452cf7"],
        "stage": "send",
        "seq": seq,
        "at": 1.764e9,
        "components": [component | changes.pop("component", {})],
    }
    return record | changes


def report(*observations: Any) -> dict[str, Any]:
    worker = {"id": "p0", "boot": "b", "deployment": "fuzz", "side": "prefill", "server": "P"}
    return {"wire": WIRE_VERSION, "worker": worker, "observations": list(observations)}


def encode(value: Any, content_type: str) -> bytes:
    if content_type == JSON:
        return msgspec.json.encode(value)
    return msgspec.msgpack.encode(value)


def post(collector: Server, body: bytes, content_type: str) -> tuple[int, dict[str, Any]]:
    answer = collector.post(body, content_type)
    if answer.headers["Content-Type"].startswith(JSON):
        return answer.status_code, msgspec.json.decode(answer.content)
    return answer.status_code, msgspec.msgpack.decode(answer.content)


scalars = (
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=20)
)
values = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=8,
)


@FUZZ
@given(body=st.binary(max_size=200), content_type=st.sampled_from([JSON, MSGPACK]))
def test_any_bytes_are_answered_in_words(collector: Server, body: bytes, content_type: str) -> None:
    status, said = post(collector, body, content_type)
    assert status in REFUSALS
    assert said["error"]


@FUZZ
@given(data=st.data(), content_type=st.sampled_from([JSON, MSGPACK]))
def test_damaged_bytes_never_break_the_collector(
    collector: Server, data: st.DataObject, content_type: str
) -> None:
    body = bytearray(encode(report(observation()), content_type))
    for _ in range(data.draw(st.integers(1, 4))):
        body[data.draw(st.integers(0, len(body) - 1))] = data.draw(st.integers(0, 255))
    cut = data.draw(st.integers(0, len(body)))
    status, said = post(collector, bytes(body[:cut] if data.draw(st.booleans()) else body), content_type)
    assert status == 200 or status in REFUSALS
    assert said


@FUZZ
@given(
    field=st.sampled_from(["room", "keys", "stage", "look", "seq", "at", "tokens", "components", "request"]),
    value=values,
    inside=st.booleans(),
    part=st.sampled_from(["name", "signature", "pages", "k", "layers", "runs", "sums", "cells", "buckets"]),
    content_type=st.sampled_from([JSON, MSGPACK]),
)
def test_a_bad_record_never_costs_its_neighbours(
    collector: Server, field: str, value: Any, inside: bool, part: str, content_type: str
) -> None:
    strange = observation(component={part: value}) if inside else observation(**{field: value})
    body = encode(report(observation("before", 11), strange, observation("after", 12)), content_type)
    status, said = post(collector, body, content_type)
    assert status == 200, said
    taken = said["accepted"] + said["duplicate"] + said["conflicting"]
    assert taken + len(said["refused"]) == 3
    assert taken >= 2
    for refusal in said["refused"]:
        assert refusal["index"] == 1
        assert refusal["field"]
        assert refusal["reason"]
    for room in ("before", "after"):
        assert collector.http.get(f"/rooms/{room}", params={"deployment": "fuzz"}).status_code == 200


@FUZZ
@given(worker=values, wire=values, content_type=st.sampled_from([JSON, MSGPACK]))
def test_a_bad_envelope_is_refused_whole(
    collector: Server, worker: Any, wire: Any, content_type: str
) -> None:
    for changes in ({"worker": worker}, {"wire": wire}):
        status, said = post(collector, encode(report() | changes, content_type), content_type)
        assert status in REFUSALS
        assert said["error"]
        assert said["field"]


def test_the_process_is_still_well_afterwards(collector: Server) -> None:
    status, said = post(collector, encode(report(observation("last", 99)), JSON), JSON)
    assert (status, said["accepted"]) == (200, 1)
    assert collector.http.get("/readyz").status_code == 200
