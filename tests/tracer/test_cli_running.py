"""`pd-tracer serve | migrate | demo`, --help and --version; and that the command line starts quickly."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from typer.testing import CliRunner

import tracer
from tracer import client
from tracer.cli import exits, options
from tracer.cli.main import app
from tracer.cli.serve import SHUTDOWN_S, listen
from tracer.settings import Settings
from tracer.store import migrate


def invoke(*arguments: str, code: int = exits.OK, env: dict[str, str] | None = None) -> Any:
    result = CliRunner().invoke(app, list(arguments), env=env)
    assert result.exit_code == code, result.output
    return result


COMMANDS = [
    "serve",
    "migrate",
    "demo",
    "rooms",
    "room",
    "summary",
    "verify",
    "workers",
    "digest",
    "culprits",
    "explain",
]


def test_help_lists_the_commands_and_the_exit_statuses() -> None:
    text = invoke("--help").stdout
    for command in COMMANDS:
        assert re.search(rf"\b{command}\b", text)
        assert "--help" in invoke(command, "--help").stdout
    assert "Exit status: 0 done;" in " ".join(text.split())


def test_version() -> None:
    assert invoke("--version").stdout == f"pd-tracer {tracer.__version__}\n"


def test_defaults_agree() -> None:
    assert options.DEFAULT_URL == client.DEFAULT_URL == f"http://127.0.0.1:{Settings().port}"


def test_the_command_line_imports_nothing_heavy() -> None:
    heavy = (
        "sqlalchemy fastapi pydantic httpx msgspec numpy torch uvicorn prometheus_client alembic rich.table"
    )
    program = f"import sys, tracer.cli.main; print([m for m in {heavy.split()} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_migrate(database_url: str) -> None:
    first = invoke("migrate", "--database-url", database_url, "--json")
    assert json.loads(first.stdout) == {"before": None, "after": migrate.head()}
    again = invoke("migrate", env={"PD_TRACER_DATABASE_URL": database_url})
    assert again.stdout.endswith(f"is up to date: version {migrate.head()}\n")


UNUSABLE = [
    ("sqlite:////no/such/folder/a.db", exits.UNREACHABLE, "sqlite:////no/such/folder/a.db: unable to open"),
    ("postgresql://u:secret@127.0.0.1:1/x", exits.UNREACHABLE, "postgresql://u:***@127.0.0.1:1/x: "),
    ("sqlite://", exits.USAGE, "SQLite in memory keeps nothing"),
    ("mysql://x/y", exits.USAGE, "--database-url: scheme 'mysql' is not known"),
]


@pytest.mark.parametrize(("url", "code", "start"), UNUSABLE)
def test_migrate_says_why_it_cannot(url: str, code: int, start: str) -> None:
    result = invoke("migrate", "--database-url", url, code=code)
    [line] = result.stderr.splitlines()
    assert line.startswith(f"pd-tracer: {start}")
    assert "secret" not in line
    assert result.stdout == ""


def test_a_database_of_a_newer_release(sqlite_url: str) -> None:
    invoke("migrate", "--database-url", sqlite_url)
    import sqlite3

    with sqlite3.connect(sqlite_url.removeprefix("sqlite:///")) as connection:
        connection.execute("UPDATE alembic_version SET version_num = '9999'")
    connection.close()
    for command in (["migrate"], ["serve", "--port", "0"]):
        result = invoke(*command, "--database-url", sqlite_url, code=exits.UNREACHABLE)
        assert result.stderr.endswith("it was made by a newer pd-tracer\n")
        assert len(result.stderr.splitlines()) == 1


@contextmanager
def serving(*arguments: str, **environment: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """A collector as its own process; gives it and the line that it says first."""
    command = [sys.executable, "-m", "tracer.cli.main", "serve", *arguments]
    with subprocess.Popen(
        command, stderr=subprocess.PIPE, text=True, env={**os.environ, **environment}
    ) as process:
        assert process.stderr is not None
        try:
            yield process, process.stderr.readline()
        finally:
            process.kill()


ENDS = [(signal.SIGTERM, -signal.SIGTERM), (signal.SIGINT, exits.INTERRUPTED)]


@pytest.mark.parametrize(("end", "status"), ENDS)
def test_serve_until_a_signal(tmp_path: Path, end: signal.Signals, status: int) -> None:
    database = f"sqlite:///{tmp_path}/serve.db"
    with serving("--port", "0", "--database-url", database) as (process, line):
        found = re.fullmatch(r"pd-tracer at (http://127\.0\.0\.1:\d+) \(.*\), database (\S+)\n", line)
        assert found is not None, line
        assert found[2] == database
        # It listens before it says so; it answers once it has started.
        assert httpx.get(f"{found[1]}/readyz", timeout=30).json() == {"ok": True, "problems": []}
        process.send_signal(end)
        assert process.wait(30) == status
        assert process.stderr is not None
        assert "Traceback" not in process.stderr.read()


def test_a_client_that_never_finishes_does_not_hold_up_a_stop(tmp_path: Path) -> None:
    with serving("--port", "0", "--database-url", f"sqlite:///{tmp_path}/serve.db") as (process, line):
        port = int(line.split()[2].rsplit(":", 1)[1])
        assert httpx.get(f"http://127.0.0.1:{port}/readyz", timeout=30).is_success
        with socket.create_connection(("127.0.0.1", port)) as slow:
            slow.sendall(
                b"POST /v1/reports HTTP/1.1\r\nHost: x\r\nContent-Type: application/msgpack\r\n"
                b"Content-Length: 1000\r\nExpect: 100-continue\r\n\r\n"
            )
            # Told to go on: its request is under way.
            assert slow.recv(100).startswith(b"HTTP/1.1 100 ")
            process.send_signal(signal.SIGTERM)
            assert process.wait(SHUTDOWN_S + 15) == -signal.SIGTERM
        assert process.stderr is not None
        assert "Traceback" not in process.stderr.read()


def test_serve_takes_settings_from_the_environment_and_options_win(tmp_path: Path) -> None:
    environment = {
        "PD_TRACER_PORT": "1",
        "PD_TRACER_DATABASE_URL": f"sqlite:///{tmp_path}/env.db",
        "PD_TRACER_RATIO_WINDOW_S": "60",
    }
    with serving("--port", "0", **environment) as (_, line):
        url = line.split()[2]
        assert line.endswith("env.db\n")
        assert httpx.get(f"{url}/summary", timeout=30).json()["window_s"] == 60


def test_the_port_is_taken(sqlite_url: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        result = invoke("serve", "--port", port, "--database-url", sqlite_url, code=exits.USAGE)
    assert result.stderr.splitlines()[-1] == (
        f"pd-tracer: port {port} on 127.0.0.1 is taken: stop what listens there, or take another with --port"
    )


def test_answers_are_sent_at_once() -> None:
    """asyncio switches Nagle's algorithm off only where the socket names TCP as its protocol."""

    async def nodelay() -> int:
        accepted: asyncio.Future[int] = asyncio.get_running_loop().create_future()

        def on_connection(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            connection = writer.get_extra_info("socket")
            accepted.set_result(connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY))
            writer.close()

        listener = listen("127.0.0.1", 0)
        async with await asyncio.start_server(on_connection, sock=listener):
            _, writer = await asyncio.open_connection(*listener.getsockname())
            found = await accepted
            writer.close()
            await writer.wait_closed()
            return found

    assert asyncio.run(nodelay()) == 1


WRONG = [
    (["--database-url", "sqlite:////no/such/folder/a.db"], {}, exits.UNREACHABLE, "sqlite:////no/such/"),
    (["--database-url", "oracle://x"], {}, exits.USAGE, "--database-url: scheme 'oracle' is not known"),
    (["--log-level", "loud"], {}, exits.USAGE, "--log-level: Input should be 'debug', 'info'"),
    (["--send-deadline-s", "0"], {}, exits.USAGE, "--send-deadline-s: Input should be greater than 0"),
    ([], {"PD_TRACER_PORT": "many"}, exits.USAGE, "PD_TRACER_PORT: Input should be a valid integer"),
    (["--host", "192.0.2.1"], {}, exits.USAGE, "cannot listen on 192.0.2.1 port 0"),
    (["--host", "no such host"], {}, exits.USAGE, "cannot listen on no such host port 0"),
]


@pytest.mark.parametrize(("arguments", "environment", "code", "start"), WRONG)
def test_serve_says_why_it_cannot(
    sqlite_url: str, arguments: list[str], environment: dict[str, str], code: int, start: str
) -> None:
    given = {"PD_TRACER_DATABASE_URL": sqlite_url, "PD_TRACER_PORT": "0", **environment}
    result = invoke("serve", *arguments, code=code, env=given)
    assert result.stderr.splitlines()[-1].startswith(f"pd-tracer: {start}")
    assert "Traceback" not in result.stderr


def test_demo_hands_its_options_over(monkeypatch: pytest.MonkeyPatch) -> None:
    from tracer.demo import run
    from tracer.demo.plan import Fault, Mix

    asked: list[run.DemoOptions] = []

    def run_demo(options: run.DemoOptions) -> int:
        asked.append(options)
        return 1

    monkeypatch.setattr(run, "run_demo", run_demo)
    invoke("demo", code=1)
    invoke("demo", "--rooms", "9", "--fault", "bit_flip", "--rate", "0.5", "--seed", "3", "--json", code=1)
    invoke("demo", "--intact", "--layers", "4", "--timeout", "60", "--keep", code=1)
    assert asked == [
        run.DemoOptions(),
        run.DemoOptions(mix=Mix(rooms=9, faults=(Fault.bit_flip,), rate=0.5, seed=3), as_json=True),
        run.DemoOptions(mix=Mix(faults=()), layers=4, timeout_s=60.0, keep=True),
    ]


def test_demo_knows_its_faults() -> None:
    result = invoke("demo", "--fault", "meteor", code=exits.USAGE)
    assert result.stderr.startswith("pd-tracer: --fault meteor: no such fault: one of bit_flip, ")
