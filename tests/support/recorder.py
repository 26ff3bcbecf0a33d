"""A stand-in for the collector's front door that records what it is posted, on a real socket.

It needs nothing but the hooks, so that their tests run wherever they do.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from pd_tracer_hooks.wire import MSGPACK, Answer, Report, decoder, encode

#: Given a report's number from 0 on and the report: status, body, headers.
Reply = Callable[[int, Report], "tuple[int, bytes, dict[str, str]]"]


def accept(_: int, report: Report) -> tuple[int, bytes, dict[str, str]]:
    """Take everything."""
    count = len(report.observations) + len(report.events) + len(report.manifests)
    return 200, encode(Answer(accepted=count)), {}


class Recorder:
    """What was posted, and how it is answered."""

    def __init__(self, reply: Reply = accept) -> None:
        self.reply = reply
        self.reports: list[Report] = []
        self.connections = 0
        self.port = 0
        self._arrived = threading.Condition()
        self._decoder = decoder(Report)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def take(self, body: bytes) -> tuple[int, bytes, dict[str, str]]:
        report = self._decoder.decode(body)
        with self._arrived:
            number = len(self.reports)
            self.reports.append(report)
            self._arrived.notify_all()
        return self.reply(number, report)

    def wait(self, condition: Callable[[], bool], timeout: float = 10.0) -> None:
        """Wait until ``condition`` holds, asking after each report."""
        with self._arrived:
            assert self._arrived.wait_for(condition, timeout), f"after {timeout} s: {self.summary()}"

    def summary(self) -> str:
        return (
            f"{len(self.reports)} reports, {len(self.observations)} observations, {len(self.events)} events"
        )

    @property
    def observations(self) -> list[Any]:
        return [record for report in self.reports for record in report.observations]

    @property
    def events(self) -> list[Any]:
        return [record for report in self.reports for record in report.events]

    @property
    def manifests(self) -> list[Any]:
        return [record for report in self.reports for record in report.manifests]


@contextmanager
def recording(recorder: Recorder, port: int = 0) -> Iterator[Recorder]:
    """Serve ``recorder`` on loopback (``port`` 0: a free one) until the block ends."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def setup(self) -> None:
            super().setup()
            recorder.connections += 1
            open_sockets.append(self.connection)

        def do_POST(self) -> None:
            assert self.headers["Content-Type"] == MSGPACK
            status, body, headers = recorder.take(self.rfile.read(int(self.headers["Content-Length"])))
            self.send_response(status)
            for name, value in {"Content-Length": str(len(body)), **headers}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: Any) -> None:
            pass

    open_sockets: list[Any] = []
    server = ThreadingHTTPServer(("127.0.0.1", port), Handler)
    server.daemon_threads = True
    recorder.port = server.server_address[1]
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield recorder
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
        for connection in open_sockets:
            # A collector that goes away takes its connections with it.
            connection.close()
