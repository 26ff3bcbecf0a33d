"""Start a server in its own process on a free loopback port, post to it, and end it again."""

from __future__ import annotations

import http.client
import os
import queue
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@dataclass(frozen=True)
class Served:
    """A server that runs."""

    port: int
    pid: int

    def cpu_s(self) -> float:
        """CPU seconds that its process has used so far, user and system (Linux)."""
        # The fields after the command's name, which may itself hold blanks: utime and stime are 14 and 15.
        fields = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@contextmanager
def _served(command: Sequence[str], env: dict[str, str], port: int) -> Iterator[Served]:
    with tempfile.TemporaryFile() as log:
        process = subprocess.Popen(command, env={**os.environ, **env}, stdout=log, stderr=log)
        try:
            _wait_ready(port, process, log)
            yield Served(port, process.pid)
        finally:
            process.terminate()
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def _wait_ready(port: int, process: subprocess.Popen[bytes], log: object, limit_s: float = 30) -> None:
    deadline = time.monotonic() + limit_s
    while time.monotonic() < deadline:
        if process.poll() is not None:
            log.seek(0)  # type: ignore[attr-defined]
            raise RuntimeError(f"the server ended: {log.read().decode()[-2000:]}")  # type: ignore[attr-defined]
        try:
            connection = http.client.HTTPConnection("127.0.0.1", port, timeout=2)
            connection.request("GET", "/readyz")
            if connection.getresponse().status == 200:
                return
        except OSError:
            pass
        time.sleep(0.05)
    raise TimeoutError(f"the server on port {port} was not ready within {limit_s} s")


@contextmanager
def collector(database_url: str) -> Iterator[Served]:
    """The real collector by its own command."""
    port = free_port()
    env = {
        "PD_TRACER_DATABASE_URL": database_url,
        "PD_TRACER_PORT": str(port),
        "PD_TRACER_LOG_LEVEL": "warning",
    }
    command = [sys.executable, "-m", "tracer.cli.main"]
    subprocess.run([*command, "migrate"], env={**os.environ, **env}, check=True, stdout=subprocess.DEVNULL)
    with _served([*command, "serve"], env, port) as ready:
        yield ready


@contextmanager
def one_by_one(database_url: str) -> Iterator[Served]:
    """The plain way (one_by_one.py)."""
    port = free_port()
    command = [
        *(sys.executable, "-m", "uvicorn", "one_by_one:app", "--log-level", "warning"),
        *("--app-dir", str(Path(__file__).parent), "--port", str(port)),
    ]
    with _served(command, {"ONE_BY_ONE_DATABASE": database_url}, port) as ready:
        yield ready


def post_all(port: int, bodies: Sequence[bytes], content_type: str, *, clients: int) -> float:
    """Post every body once over ``clients`` keep-alive connections; gives the seconds it took.

    Raises ``RuntimeError`` for an answer that is not 200: a lost report must not look like speed.
    """
    work: queue.SimpleQueue[bytes] = queue.SimpleQueue()
    for body in bodies:
        work.put(body)
    failures: list[str] = []

    def run() -> None:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        try:
            while not failures:
                try:
                    body = work.get_nowait()
                except queue.Empty:
                    return
                connection.request("POST", "/v1/reports", body, {"Content-Type": content_type})
                answer = connection.getresponse()
                text = answer.read()
                if answer.status != 200:
                    failures.append(f"{answer.status}: {text[:200]!r}")
        except OSError as error:
            failures.append(repr(error))
        finally:
            connection.close()

    threads = [threading.Thread(target=run) for _ in range(clients)]
    started = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    elapsed = time.perf_counter() - started
    if failures:
        raise RuntimeError(f"a report was not taken: {failures[0]}")
    return elapsed
