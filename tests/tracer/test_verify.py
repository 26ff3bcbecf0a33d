"""``pd-tracer verify``: each step that can be missing is named, by a real collector and a service."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
from support.reports import Cluster
from support.serving import Server

from pd_tracer_hooks.wire import Heartbeat, HooksState, Stage
from tracer.client import Client
from tracer.verify.run import verify
from tracer.verify.service import send_request
from tracer.verify.steps import Outcome

Served = Callable[[str, dict[str, Any]], tuple[int, dict[str, Any]]]


@contextmanager
def service(answer: Served) -> Iterator[str]:
    """An HTTP service whose POSTs are answered by ``answer(path, body)``."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            status, reply = answer(self.path, body)
            text = json.dumps(reply).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)

        def do_GET(self) -> None:
            text = json.dumps({"data": [{"id": "tiny"}]}).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)

        def log_message(self, *_: Any) -> None:
            pass

    httpd = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=httpd.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{httpd.server_address[1]}"
    finally:
        httpd.shutdown()
        thread.join(5)
        httpd.server_close()


def run(server: Server, url: str, wait_s: float = 0.4) -> list[Outcome]:
    with Client(server.url) as client:
        return list(verify(client, url, wait_s=wait_s))


def last(outcomes: list[Outcome]) -> tuple[str, bool]:
    return outcomes[-1].step.value, outcomes[-1].ok


def alive(cluster: Cluster, state: HooksState = HooksState.active) -> list[Any]:
    beat = Heartbeat(state=state, faults=5 if state is HooksState.detached else 0)
    return [cluster.prefill.report(heartbeat=beat), cluster.decode.report(heartbeat=beat)]


def ok(path: str, body: dict[str, Any]) -> tuple[int, dict[str, Any]]:
    return (200, {"text": "x"}) if path == "/generate" else (404, {})


def test_nobody_attached(server: Server) -> None:
    with service(ok) as url:
        outcomes = run(server, url)
    assert last(outcomes) == ("attached", False)
    assert "no prefill and no decode worker reports" in outcomes[-1].message
    assert "doctor" in outcomes[-1].hint


def test_one_side_attached(server: Server) -> None:
    server.tell(alive(Cluster())[0])
    with service(ok) as url:
        outcomes = run(server, url)
    assert outcomes[-1].message == "no decode worker reports"


def test_hooks_that_took_themselves_out(server: Server) -> None:
    server.tell(*alive(Cluster(), HooksState.detached))
    with service(ok) as url:
        outcomes = run(server, url)
    assert "took themselves out after 5 faults" in outcomes[-1].message


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (lambda path, body: (500, {"error": "no route"}), "/generate answered 500"),
        (lambda path, body: (404, {}), "has none of /generate, /v1/completions"),
    ],
)
def test_the_service_itself_fails(server: Server, answer: Served, words: str) -> None:
    server.tell(*alive(Cluster()))
    with service(answer) as url:
        outcomes = run(server, url)
    assert last(outcomes) == ("request", False)
    assert words in outcomes[-1].message


def test_the_service_is_not_there() -> None:
    sent = send_request("http://127.0.0.1:9", timeout_s=1)
    assert not sent.ok
    assert "does not answer" in sent.message


def test_no_report(server: Server) -> None:
    server.tell(*alive(Cluster()))
    with service(ok) as url:
        outcomes = run(server, url)
    assert last(outcomes) == ("reported", False)
    assert "no worker reported a room for it" in outcomes[-1].message


def test_refused_records_are_named(server: Server) -> None:
    cluster = Cluster()
    server.tell(*alive(cluster))

    def answer(path: str, body: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        server.tell(cluster.decode.report(drops={"refused": 3}))
        return 200, {}

    with service(answer) as url:
        outcomes = run(server, url)
    assert last(outcomes) == ("reported", False)
    assert "lost 3 records meanwhile (refused)" in outcomes[-1].message


@pytest.mark.parametrize("api", ["/generate", "/v1/completions"])
@pytest.mark.parametrize("sides", ["both", "prefill only"])
def test_a_room_with_both_sides_or_the_one_that_is_missing(server: Server, api: str, sides: str) -> None:
    cluster = Cluster()
    server.tell(*alive(cluster))

    def answer(path: str, body: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        if path != api:
            return 404, {}
        request = body.get("rid", "of-another-kind")
        assert body.get("model", "tiny") == "tiny"
        server.tell(cluster.prefill.report(cluster.prefill.look("77", Stage.send, request=request)))
        if sides == "both":
            server.tell(cluster.decode.report(cluster.decode.look("77", Stage.receive, request=request)))
        return 200, {}

    with service(answer) as url:
        outcomes = run(server, url)
    if sides == "both":
        assert all(outcome.ok for outcome in outcomes)
        assert last(outcomes) == ("verdict", True)
    else:
        assert last(outcomes) == ("both sides", False)
        assert outcomes[-1].message.startswith("decode did not report its part")
