"""The OpenAPI document describes the ingest route as it is."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from support.reports import Cluster
from support.serving import Server, serve

from pd_tracer_hooks import wire
from pd_tracer_hooks.wire import JSON
from tracer.api.openapi import EXAMPLE, PATH
from tracer.settings import Settings


@pytest.fixture
def sqlite_server(sqlite_url: str) -> Any:
    with serve(Settings(database_url=sqlite_url, port=0)) as running:
        yield running


def test_the_document_holds_together(sqlite_server: Server) -> None:
    text = sqlite_server.http.get("/openapi.json").text
    document = json.loads(text)
    names = set(re.findall(r'"#/components/schemas/([^"]+)"', text))
    assert names <= set(document["components"]["schemas"])
    operation = document["paths"][PATH]["post"]
    assert set(operation["requestBody"]["content"]) == {wire.JSON, wire.MSGPACK}
    assert set(operation["responses"]) == {"200", "400", "413", "415", "422", "503"}


def test_the_example_works_as_printed(sqlite_server: Server) -> None:
    response = sqlite_server.post(json.dumps(EXAMPLE).encode(), JSON)
    assert (response.status_code, response.json()["accepted"]) == (200, 1)


def test_a_real_report_fits_the_schema(sqlite_server: Server) -> None:
    jsonschema = pytest.importorskip("jsonschema_rs")
    document = sqlite_server.http.get("/openapi.json").json()
    schema = document["paths"][PATH]["post"]["requestBody"]["content"][JSON]["schema"]
    validator = jsonschema.validator_for({**schema, "components": document["components"]})
    report = json.loads(wire.encode(Cluster().sent("1"), JSON))
    assert validator.is_valid(report)
    report["observations"][0]["seq"] = "x"
    assert not validator.is_valid(report)
