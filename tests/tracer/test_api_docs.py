"""docs/api.md: its requests give its answers, and it leaves out no path and no parameter."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from pydantic import TypeAdapter
from sqlalchemy import select, update
from support.serving import Server, serve

from pd_tracer_hooks import wire
from tracer.api import models
from tracer.settings import Settings
from tracer.store.schema import rooms

DOCS = Path(__file__).resolve().parents[2] / "docs"
API = (DOCS / "api.md").read_text()
REPORTS = re.findall(r"-d '(\{.*?\n\})'", (DOCS / "wire.md").read_text(), re.DOTALL)
EXAMPLES = re.findall(
    r"```bash\ncurl -sS 'http://127\.0\.0\.1:8400(.*?)'\n```\n\n```json\n(.*?)\n```", API, re.DOTALL
)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    path = tmp_path_factory.mktemp("api") / "api.db"
    with serve(Settings(database_url=f"sqlite:///{path}", port=0, replica="test")) as running:
        for body in REPORTS:
            assert running.post(body.encode(), wire.JSON).json()["accepted"] == 1
        yield running


READ_SIDE = ("/rooms", "/summary", "/culprits", "/exonerated", "/workers")
#: Times differ from run to run, and the sentences of the join are explained elsewhere.
VARIES = {"reason", "notes"}


def steady(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: "..." if key in VARIES else steady(item) for key, item in value.items()}
    if isinstance(value, list):
        return [steady(item) for item in value]
    return "a time" if isinstance(value, float) and value not in (0.0, 1.0) else value


@pytest.mark.parametrize(("path", "answer"), EXAMPLES, ids=[path for path, _ in EXAMPLES])
def test_requests_give_these_answers(server: Server, path: str, answer: str) -> None:
    assert steady(server.http.get(path).json()) == steady(json.loads(answer))


def test_each_endpoint_has_an_example() -> None:
    paths = [path.split("?")[0] for path, _ in EXAMPLES]
    assert {"/rooms", "/rooms/4711", "/rooms/4712", "/summary", "/exonerated", "/workers"} <= set(paths)
    assert len(REPORTS) == 2


def openapi(server: Server) -> dict[str, Any]:
    found: dict[str, Any] = server.http.get("/openapi.json").json()
    return found


def test_every_path_and_parameter_is_there(server: Server) -> None:
    for path, methods in openapi(server)["paths"].items():
        for method, operation in methods.items():
            assert f"`{method.upper()} {path}`" in API, path
            for parameter in operation.get("parameters", []):
                assert f"`{parameter['name']}`" in API or f"{parameter['name']}=" in API, parameter["name"]


def test_every_status_is_there(server: Server) -> None:
    statuses = {
        status
        for path, methods in openapi(server)["paths"].items()
        if path.startswith(READ_SIDE)
        for operation in methods.values()
        for status in operation["responses"]
    }
    for status in statuses - {"200"}:
        assert f"| {status} |" in API


@pytest.mark.parametrize(
    "model",
    [
        models.Problem,
        models.Choices,
        models.RoomSummary,
        models.Room,
        models.Summary,
        models.Culprits,
        models.Exonerated,
        models.Worker,
    ],
)
def test_openapi_has_examples_that_are_valid(server: Server, model: Any) -> None:
    examples = openapi(server)["components"]["schemas"][model.__name__]["examples"]
    assert examples
    for example in examples:
        TypeAdapter(model).validate_python(example)
        assert set(example) <= set(model.model_fields)


def test_every_answer_of_the_read_side_is_described(server: Server) -> None:
    for path, methods in openapi(server)["paths"].items():
        if not path.startswith(READ_SIDE):
            continue
        for status, answer in methods["get"]["responses"].items():
            schema = answer["content"]["application/json"]["schema"]
            expected = {"409": "Choices"}.get(status, "Problem")
            if status != "200":
                assert schema["$ref"].endswith(f"/{expected}"), (path, status)


def test_docs_are_shown(server: Server) -> None:
    assert "swagger" in server.http.get("/docs").text.lower()
    assert server.http.get("/", follow_redirects=False).headers["location"] == "docs"


BROKEN = [
    ("GET", "/nothing", 404, "/docs lists what there is"),
    ("DELETE", "/rooms", 405, "/docs lists what there is"),
    ("POST", "/summary", 405, "/docs lists what there is"),
]


@pytest.mark.parametrize(("method", "path", "status", "hint"), BROKEN)
def test_framework_errors_have_the_shape_too(
    server: Server, method: str, path: str, status: int, hint: str
) -> None:
    answer = server.http.request(method, path)
    assert answer.status_code == status
    assert answer.json()["hint"] == hint
    models.Problem.model_validate(answer.json())
    if status == 405:
        assert answer.headers["allow"] == "GET"


def _break(server: Server, *statements: str) -> None:
    with server.collector.database.write.begin() as connection:
        for statement in statements:
            connection.exec_driver_sql(statement)


@pytest.mark.parametrize("path", ["/rooms", "/rooms/4711", "/summary"])
def test_a_database_that_fails_is_503(server: Server, path: str) -> None:
    _break(server, "ALTER TABLE rooms RENAME TO away")
    try:
        answer = server.http.get(path)
    finally:
        _break(server, "ALTER TABLE away RENAME TO rooms")
    assert answer.status_code == 503
    assert answer.headers["retry-after"] == "1"
    assert answer.json() == {
        "error": "the database does not answer (OperationalError)",
        "field": "",
        "hint": "try again; /readyz says what is wrong",
    }
    assert server.http.get(path).status_code == 200


def test_a_fault_of_ours_is_500_in_the_shape(server: Server) -> None:
    engine = server.collector.database.write
    with engine.begin() as connection:
        body = connection.execute(select(rooms.c.body)).scalar_one()
        connection.execute(update(rooms).values(body=b"\xc1"))
    try:
        answer = server.http.get("/rooms/4711")
    finally:
        with engine.begin() as connection:
            connection.execute(update(rooms).values(body=body))
    assert answer.status_code == 500
    assert answer.json()["error"] == "a fault in the collector (DecodeError)"
    assert server.http.get("/rooms/4711").status_code == 200


def test_a_list_that_takes_too_long_is_503(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    from tracer.store import reading

    monkeypatch.setattr(reading, "_SQLITE_STEPS", 1)
    monkeypatch.setattr(reading.time, "monotonic", iter(range(10**9)).__next__)
    answer: httpx.Response = server.http.get("/rooms")
    assert answer.status_code == 503
    assert answer.json() == {
        "error": "the query took longer than 10 s",
        "field": "since",
        "hint": "narrow it with since=, until= or deployment= and ask again",
    }
