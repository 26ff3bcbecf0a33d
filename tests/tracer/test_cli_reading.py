"""`pd-tracer rooms | room | summary | workers` against a running collector."""

from __future__ import annotations

import http.server
import json
import re
import socket
import threading
from collections.abc import Iterator

import httpx
import pytest
from click.testing import Result
from support.reports import Cluster, speaker
from support.scenes import Scene
from support.serving import Server, serve
from typer.testing import CliRunner

from pd_tracer_hooks.wire import EventKind, Stage
from tracer import client
from tracer.cli import exits
from tracer.cli.main import app
from tracer.cli.output import ago, percent
from tracer.settings import Settings


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    path = tmp_path_factory.mktemp("cli") / "cli.db"
    with serve(Settings(database_url=f"sqlite:///{path}", port=0, replica="test")) as running:
        Scene(running).play()
        yield running


@pytest.fixture(autouse=True)
def _wide(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "250")
    monkeypatch.delenv("PD_TRACER_URL", raising=False)


def run(server: Server, *arguments: str, code: int = exits.OK) -> Result:
    result = CliRunner().invoke(app, [*arguments, "--url", server.url])
    assert result.exit_code == code, result.output
    return result


def said(server: Server, *arguments: str, code: int) -> str:
    """The one line on stderr of a command that fails; stdout stays empty."""
    result = run(server, *arguments, code=code)
    assert result.stdout == ""
    [line] = result.stderr.splitlines()
    return line


def test_room_says_it_in_words_first(server: Server) -> None:
    result = run(server, "room", "bad")
    lines = result.stdout.splitlines()
    assert lines[0] == "room bad: index_k mismatch, layer 2, head, page 1, pair P0→D0"
    assert "requests  p-bad / d-bad" in result.stdout
    # then the components, then the timeline
    [kv] = [line for line in lines if line.split()[:1] == ["kv"]]
    [index_k] = [line for line in lines if re.match(r" *index_k +mismatch", line)]
    assert re.search(r"match +8/8 +3/3 +full", kv)
    assert re.search(r"mismatch +layer 2, head, page 1 +8/8 +2/2 +full", index_k)
    stages = [line.split()[4] for line in lines if line.strip().startswith("+")]
    assert stages == ["opened", "send", "receive"]
    assert lines.index(kv) < next(i for i, line in enumerate(lines) if line.strip().startswith("+"))
    assert "kv full pages 0-7 of 8, 3 layers; index_k full pages 0-7 of 8, 2 layers" in result.stdout


def test_room_of_several_attempts_lists_them(server: Server) -> None:
    cluster = Cluster(speaker("prefill", "px"), speaker("decode", "dx"))
    keys = ["00000000000000aa", "00000000000000bb"]
    for number, key in enumerate(keys):
        server.tell(
            cluster.decode.report(
                cluster.decode.event("again", EventKind.opened, keys=[key], request=f"r{number}")
            ),
            cluster.sent("again", keys=[key]),
            cluster.received("again", keys=[key]),
        )
    text = run(server, "room", "again").stdout
    assert "attempt 2" in text.splitlines()[0]
    for number, key in enumerate(keys, 1):
        assert re.search(rf"{number} +PX→DX +{key} +match +px +dx", text)


@pytest.mark.parametrize(
    ("arguments", "path"),
    [
        (["room", "bad"], "/rooms/bad"),
        (["room", "good", "--deployment", "qwen"], "/rooms/good?deployment=qwen"),
        (["summary", "--window", "2h"], "/summary?window=2h"),
        (["workers", "--side", "prefill"], "/workers?side=prefill"),
        (
            ["rooms", "--verdict", "mismatch", "--verdict", "pending"],
            "/rooms?verdict=mismatch&verdict=pending",
        ),
        (["rooms", "--request", "d-bad", "--since", "1h", "-d", "llama"], "/rooms?request=d-bad"),
    ],
)
def test_json_is_what_the_collector_says(server: Server, arguments: list[str], path: str) -> None:
    result = run(server, *arguments, "--json")
    assert result.stderr == ""
    clock = {"since", "until", "age_s", "oldest_age_s"}

    def still(value: object) -> object:
        if isinstance(value, dict):
            return {key: still(item) for key, item in value.items() if key not in clock}
        return [still(item) for item in value] if isinstance(value, list) else value

    assert still(json.loads(result.stdout)) == still(httpx.get(server.url + path).json())


def test_rooms_lists_what_fits(server: Server) -> None:
    result = run(server, "rooms", "--pair", "P0->D0", "--verdict", "mismatch")
    [line] = [line for line in result.stdout.splitlines() if "llama" in line]
    assert re.search(r"ago +llama +bad +mismatch +index_k mismatch, layer 2, head, page 1, pair P0→D0", line)
    nothing = run(server, "rooms", "--worker", "nobody")
    assert (nothing.stdout, nothing.stderr) == ("", "no room fits\n")


def test_rooms_asks_for_as_many_pages_as_it_takes(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client, "PAGE", 2)
    arguments = ["rooms", "--node", "n0", "--json"]
    everything = json.loads(run(server, *arguments, "--limit", "1000").stdout)
    assert len(everything["rooms"]) == 4
    assert everything["next"] is None
    three = json.loads(run(server, *arguments, "--limit", "3").stdout)
    assert three["rooms"] == everything["rooms"][:3]
    rest = json.loads(run(server, *arguments, "--cursor", three["next"]).stdout)
    assert rest["rooms"] == everything["rooms"][3:]
    assert "there are more: --cursor " in run(server, "rooms", "--limit", "1").stderr


def test_summary_in_words(server: Server) -> None:
    text = run(server, "summary", "--deployment", "llama").stdout
    assert re.search(r"^last 15 min: \d+ rooms settled, \d+ compared, [\d.]+ % match; 1 pending", text)
    assert re.search(r"llama +P0→D0 +1 +1 +50\.00 %", text)
    assert re.search(r"index_k +\d+ +1 +[\d.]+ %", text)
    empty = run(server, "summary", "--deployment", "none").stdout
    assert empty == "last 15 min: 0 rooms settled, 0 compared, - match; 0 pending\n"


def test_workers_in_words(server: Server) -> None:
    text = run(server, "workers", "--node", "n1").stdout
    who = r"llama +decode +D0 +d0 +n1 +\S+ \S+ ago +- +queue_full 2 +"
    assert re.search(who + r"kv \(3 layers\), index_k \(2 layers\) +sglang 0\.5\.6", text)
    assert run(server, "workers", "--node", "none").stderr == "no worker fits\n"


def test_check_tells_scripts(server: Server) -> None:
    run(server, "room", "good", "-d", "qwen", "--check")
    assert json.loads(run(server, "room", "bad", "--check", "--json", code=exits.FINDING).stdout)
    run(server, "room", "bad")


def test_what_is_not_there(server: Server) -> None:
    line = said(server, "room", "nosuch", code=exits.FINDING)
    assert line == "pd-tracer: no room 'nosuch': `pd-tracer rooms --request ...` finds it by request id"


def test_which_deployment(server: Server) -> None:
    line = said(server, "room", "good", code=exits.USAGE)
    assert line == "pd-tracer: 2 deployments have a room 'good': say --deployment, one of: llama, qwen"


@pytest.mark.parametrize(
    ("arguments", "start"),
    [
        (["rooms", "--verdict", "fine"], "pd-tracer: verdict: "),
        (["rooms", "--since", "yesterday"], "pd-tracer: since: 'yesterday' is no time"),
        (["rooms", "--cursor", "x"], "pd-tracer: cursor: "),
        (["rooms", "--pair", "A"], "pd-tracer: pair: write both servers"),
        (["summary", "--window", "soon"], "pd-tracer: window: 'soon' is no duration"),
        (["workers", "--side", "left"], "pd-tracer: side: "),
        (["room", "bad", "--url", "localhost:8400"], "pd-tracer: url 'localhost:8400' is no http or https"),
        (["room", "bad", "--url", "http://[::"], "pd-tracer: url 'http://[::'"),
    ],
)
def test_wrong_values_name_the_option(server: Server, arguments: list[str], start: str) -> None:
    if "--url" in arguments:
        result = CliRunner().invoke(app, arguments)
        assert result.exit_code == exits.USAGE
        assert result.stderr.startswith(start)
    else:
        assert said(server, *arguments, code=exits.USAGE).startswith(start)


def test_nobody_answers() -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{closed.getsockname()[1]}"
        result = CliRunner().invoke(app, ["summary"], env={"PD_TRACER_URL": url})
    assert result.exit_code == exits.UNREACHABLE
    [line] = result.stderr.splitlines()
    assert line.startswith(f"pd-tracer: no collector answers at {url} (")
    assert line.endswith("start one with `pd-tracer serve`, or say where it is with --url or PD_TRACER_URL")


def test_somebody_else_answers() -> None:
    class Other(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200 if "rooms" in self.path else 404)
            self.end_headers()
            self.wfile.write(b"<html>hello")

        def log_message(self, *_: object) -> None:
            pass

    with http.server.HTTPServer(("127.0.0.1", 0), Other) as other:
        thread = threading.Thread(target=other.serve_forever)
        thread.start()
        url = f"http://127.0.0.1:{other.server_port}"
        for command, status in (("rooms", 200), ("summary", 404)):
            result = CliRunner().invoke(app, [command, "--url", url])
            assert result.exit_code == exits.UNREACHABLE
            [line] = result.stderr.splitlines()
            assert line.startswith(f"pd-tracer: {url} answers {status}, but not as a collector does: ")
        other.shutdown()
        thread.join()


def test_another_shape_than_expected() -> None:
    answer = httpx.MockTransport(lambda _: httpx.Response(200, json={"rooms": [{}], "next": None}))
    with (
        client.Client(transport=answer) as asked,
        pytest.raises(client.UnreachableError, match="another shape"),
    ):
        _ = asked.rooms().value


def test_fields_of_a_newer_collector_pass(server: Server) -> None:
    body = httpx.get(server.url + "/rooms").json()
    body["news"] = body["rooms"][0]["news"] = 1
    answer = httpx.MockTransport(lambda _: httpx.Response(200, json=body))
    with client.Client(transport=answer) as asked:
        assert asked.rooms().value.rooms[0].room == body["rooms"][0]["room"]


HOSTILE = "4\x1b[2J[bold]:smile:\n<b>"


def test_hostile_names_do_nothing_to_the_terminal(server: Server) -> None:
    bad = speaker("prefill", f"p{HOSTILE}", deployment="hostile")
    server.tell(bad.report(bad.look(HOSTILE, Stage.send, request=HOSTILE), drops={HOSTILE: 1}))
    for arguments in (["rooms", "-d", "hostile"], ["workers", "-d", "hostile"], ["room", HOSTILE]):
        text = run(server, *arguments).stdout
        assert "4\\x1b[2J[bold]:smile:\\n<b>" in text
        assert all(line.isprintable() for line in text.splitlines())
    line = said(server, "room", HOSTILE + "?", code=exits.FINDING)
    assert line.isprintable()


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [
        (-1, "0.0 s"),
        (0.44, "0.4 s"),
        (59, "59 s"),
        (125, "2 min"),
        (7200, "2 h"),
        (900, "15 min"),
        (3 * 86_400, "3 d"),
    ],
)
def test_ages(seconds: float, shown: str) -> None:
    assert ago(seconds) == shown


@pytest.mark.parametrize(
    ("ratio", "shown"),
    [
        (None, "-"),
        (1.0, "100.00 %"),
        (0.0, "0.00 %"),
        (0.5, "50.00 %"),
        (1 - 1e-9, "> 99.99 %"),
        (1e-9, "< 0.01 %"),
    ],
)
def test_ratios_are_never_rounded_to_perfect(ratio: float | None, shown: str) -> None:
    assert percent(ratio) == shown
