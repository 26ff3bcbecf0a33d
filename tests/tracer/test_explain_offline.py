"""`pd-tracer explain`: verdicts from files, with no collector."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import msgspec
import pytest
from click.testing import Result
from support.reports import DAMAGED, KEY, Cluster, Speaker, speaker
from support.rooms import INDEX_K, KV
from support.serving import Server
from typer.testing import CliRunner

from pd_tracer_hooks import wire
from pd_tracer_hooks.spool import Spool, SpoolTransport, spool_path
from pd_tracer_hooks.u64s import U64s
from pd_tracer_hooks.wire import Detail, EventKind, Report, Stage
from tracer import offline
from tracer.cli import exits
from tracer.cli.main import app
from tracer.join.model import RoomVerdict, Verdict
from tracer.offline import Losses, read_spool
from tracer.rejudge import is_finding, judge_reports

START = 1_764_000_000.0


def cluster() -> Cluster:
    return Cluster(
        speaker("prefill", "p0", node="n0", run="kv=bf16", aliases=["10.0.0.1:8998"]),
        speaker("decode", "d0", node="n1"),
    )


def lines(*reports: Report) -> bytes:
    """A spool, its reports a second apart."""
    sent = [msgspec.structs.replace(r, sent_at=r.sent_at or START + n) for n, r in enumerate(reports)]
    return b"".join(wire.encode(report, wire.JSON) + b"\n" for report in sent)


@pytest.fixture
def spools(tmp_path: Path) -> list[Path]:
    """Five rooms, one damaged, one without decode, one aborted; a file for each side."""
    made = cluster()
    manifest = (KV.in_manifest(), INDEX_K.in_manifest())
    prefill = [made.prefill.report(made.prefill.manifest(*manifest))]
    decode = [made.decode.report(made.decode.manifest(*manifest))]
    for room in ("good", "bad", "fine"):
        prefill.append(made.sent(room, request=f"p-{room}"))
        decode.append(
            made.decode.report(
                made.decode.event(room, EventKind.opened, request=f"d-{room}", peer="10.0.0.1:8998"),
                made.decode.look(
                    room,
                    Stage.receive,
                    request=f"d-{room}",
                    **({"components": DAMAGED} if room == "bad" else {}),
                ),
            )
        )
    prefill.append(made.sent("alone"))
    decode.append(
        made.decode.report(
            made.decode.event("gone", EventKind.opened, keys=["0" * 16], peer="10.0.0.1:8998"),
            made.decode.event("gone", EventKind.aborted, keys=["0" * 16], reason="client left"),
        )
    )
    files = [tmp_path / "prefill.jsonl", tmp_path / "decode.jsonl"]
    for file, reports in zip(files, (prefill, decode), strict=True):
        file.write_bytes(lines(*reports))
    return files


def run(*arguments: str | Path, code: int = exits.OK) -> Result:
    result = CliRunner().invoke(app, ["explain", *map(str, arguments)], env={"COLUMNS": "200"})
    assert result.exit_code == code, result.output
    return result


def test_both_sides_are_read_together(spools: list[Path]) -> None:
    text = run(*spools, code=exits.FINDING).stdout
    assert text.startswith("5 rooms: 1 mismatch, 1 missing_decode, 1 aborted, 2 match\n")
    assert " of 3 rooms compared; " in text
    assert "2 more could not be compared" in text
    rows = re.findall(r"^ ?llama +(\w+) +(\w+) +(.*)$", text, re.MULTILINE)
    assert [(room, verdict) for room, verdict, _ in rows] == [
        ("bad", "mismatch"),
        ("alone", "missing_decode"),
        ("gone", "aborted"),
        ("fine", "match"),
        ("good", "match"),
    ]
    assert rows[0][2].startswith("index_k mismatch, layer 2, head, page 1")
    assert "pair P0→D0" in rows[2][2], "the peer is known by its alias"


def test_a_folder_is_all_its_spools(spools: list[Path]) -> None:
    (spools[0].parent / "notes.txt").write_text("no report")
    assert run(spools[0].parent, code=exits.FINDING).stdout == run(*spools, code=exits.FINDING).stdout


def test_the_order_of_files_changes_nothing(spools: list[Path]) -> None:
    forwards = run(*spools, "--json", code=exits.FINDING).stdout
    assert run(*reversed(spools), "--json", code=exits.FINDING).stdout == forwards


def test_one_room_is_the_page_of_a_collector(spools: list[Path], server: Server) -> None:
    """The same records give the same page; only times of arrival are another clock's."""
    for file in spools:
        for line in file.read_bytes().splitlines():
            assert server.post(line, wire.JSON).status_code == 200
    for room in ("bad", "good", "alone"):
        result = run(*spools, "--room", room, "--json", code=exits.OK if room == "good" else exits.FINDING)
        found = json.loads(result.stdout)
        theirs = server.http.get(f"/rooms/{room}").json()
        if room != "alone":
            assert steady(found) == steady(theirs)
        else:
            assert (found["verdict"], theirs["verdict"]) == ("missing_decode", "pending")


#: Arrival is the sender's clock in a file and the collector's there; neighbours are named in that order.
_ARRIVAL = {
    "first_seen", "last_seen", "settled_at", "join_delay_s", "received", "deadline", "neighbours", "timeline",
}  # fmt: skip


def steady(page: dict[str, Any]) -> dict[str, Any]:
    timeline = sorted(page["timeline"], key=lambda entry: (entry["worker"], entry["seq"]))
    same = {key: value for key, value in page.items() if key not in _ARRIVAL}
    return same | {"said": [{k: v for k, v in entry.items() if k != "received"} for entry in timeline]}


def test_one_room_is_printed_as_room_prints_it(spools: list[Path]) -> None:
    text = run(*spools, "--room", "bad", code=exits.FINDING).stdout
    assert text.startswith("room bad: index_k mismatch, layer 2, head, page 1")
    assert re.search("layer 2  ·[▒█]······\n", text)
    assert re.search(r"[\d.]+ s after +fine +match", text)
    assert "run  kv=bf16" in text
    run(*spools, "--room", "good")


def test_json_of_all(spools: list[Path]) -> None:
    found = json.loads(run(*spools, "--json", "--limit", "2", code=exits.FINDING).stdout)
    assert found["counts"] == {"mismatch": 1, "missing_decode": 1, "aborted": 1, "match": 2}
    assert [room["room"] for room in found["rooms"]] == ["bad", "alone"]
    assert (found["lines_lost"], found["records_refused"]) == (0, 0)


def test_more_than_the_limit_is_said(spools: list[Path]) -> None:
    assert "and 3 more: --limit 5" in run(*spools, "--limit", "2", code=exits.FINDING).stderr


def test_without_a_finding_the_status_is_0(tmp_path: Path) -> None:
    made, file = cluster(), tmp_path / "all.jsonl"
    file.write_bytes(lines(made.sent("1"), made.received("1")))
    assert run(file).stdout.startswith("1 rooms: 1 match\n")


@pytest.mark.parametrize("verdict", list(Verdict))
def test_what_is_a_finding(verdict: Verdict) -> None:
    harmless = {"match", "nothing_transferred", "sampled_out", "dropped", "aborted", "pending"}
    assert is_finding(RoomVerdict(verdict=verdict, settled=True)) == (verdict.value not in harmless)


def test_records_that_are_there_twice_count_once(spools: list[Path]) -> None:
    once = judge_reports(read_spool(spools))
    twice = judge_reports(read_spool([*spools, *spools]))
    assert [one.row for one in once] == [one.row for one in twice]
    assert [len(one.timeline.records) for one in once] == [len(one.timeline.records) for one in twice]


def test_nothing_is_said_that_compares_two_hosts_clocks(spools: list[Path]) -> None:
    for one in judge_reports(read_spool(spools)):
        assert one.row.said.join_delay_s is None
        assert one.row.deadline is None


def test_page_digests_in_a_spool_are_in_the_timeline(tmp_path: Path) -> None:
    made, file = cluster(), tmp_path / "all.jsonl"
    gone = Detail(
        room="1",
        keys=[KEY],
        stage=Stage.receive,
        seq=made.decode.next(),
        at=START,
        component="kv",
        digests=U64s(),
        gone=True,
        reason="evicted",
    )
    file.write_bytes(lines(made.sent("1"), made.received("1"), made.decode.report(details=[gone])))
    entries = json.loads(run(file, "--room", "1", "--json").stdout)["timeline"]
    assert [(entry["kind"], entry["stage"]) for entry in entries] == [
        ("observation", "send"),
        ("observation", "receive"),
        ("detail", "receive"),
    ]
    assert "detail of receive" in run(file, "--room", "1").stdout


def test_what_the_hooks_spool_is_read(tmp_path: Path) -> None:
    """A spool that was full once, written by the hooks: the full file before the current one."""
    made = cluster()
    folder = tmp_path / "spools"
    for side in (made.prefill, made.decode):
        stage = Stage.send if side is made.prefill else Stage.receive
        spool = Spool(spool_path(f"file://{folder}/", side.worker), 20_000, lambda _: None)
        transport = SpoolTransport(spool)
        for number in range(12):
            transport.send(wire.encode(side.report(side.look(str(number), stage))), 1.0)
        transport.close()
    assert len(list(folder.glob("*.1.jsonl"))) == 2, "the test fills one half"
    found = json.loads(run(folder, "--json").stdout)
    assert found["counts"] == {"match": 12}
    assert found["lines_lost"] == 0


def test_page_digests_of_both_sides_make_the_map_exact(tmp_path: Path, server: Server) -> None:
    """Both from a file and in a collector: the one cell that is damaged, and no other, is called bad."""
    made, file = cluster(), tmp_path / "all.jsonl"

    def detail(speaker: Speaker, fields: dict[str, Any]) -> Detail:
        return Detail(room="1", keys=[KEY], seq=speaker.next(), at=START, **fields)

    reports = [
        made.sent("1"),
        made.received("1", components=DAMAGED),
        made.prefill.report(details=[detail(made.prefill, INDEX_K.detail(Stage.send))]),
        made.decode.report(details=[detail(made.decode, INDEX_K.detail(Stage.receive, damage=[(2, 1)]))]),
    ]
    file.write_bytes(lines(*reports))
    server.tell(*reports)
    pages = [
        json.loads(run(file, "--room", "1", "--json", code=exits.FINDING).stdout),
        server.http.get("/rooms/1").json(),
    ]
    for page in pages:
        [found] = page["map"]
        assert (found["component"], found["exact"]) == ("index_k", True)
        assert found["rows"] == [
            {"layers": [0], "runs": [[0, 8, "good"]]},
            {"layers": [2], "runs": [[0, 1, "good"], [1, 1, "bad"], [2, 6, "good"]]},
        ]
        details = [entry for entry in page["timeline"] if entry["kind"] == "detail"]
        assert [(entry["stage"], entry["component"]) for entry in details] == [
            ("send", "index_k"),
            ("receive", "index_k"),
        ]
        assert [entry["detail"]["digests"] for entry in details] == [16, 16]
    text = run(file, "--room", "1", code=exits.FINDING).stdout
    assert "layer 2  ·█······\n" in text
    assert "cell by cell, from page digests" in text


BROKEN: list[tuple[bytes, str]] = [
    (b"{", "the body is no json"),
    (b"\xff\xfe", "the body is no json"),
    (b"[]", "array"),
    (b'{"wire": "99.0"}', "wire: version 99.0 is not understood"),
    (b'{"wire": "0.1"}', "worker"),
    (b"null", "null"),
]


@pytest.mark.parametrize(("line", "reason"), BROKEN)
def test_bad_lines_cost_only_themselves(tmp_path: Path, line: bytes, reason: str) -> None:
    made, file = cluster(), tmp_path / "worker.jsonl"
    file.write_bytes(lines(made.sent("1")) + line + b"\n\n" + lines(made.received("1")))
    losses = Losses()
    assert len(list(read_spool([file], losses))) == 2
    assert (losses.lines, losses.records) == (1, 0)
    [named] = losses.named
    assert named.startswith(f"{file}:2: ")
    assert reason in named
    assert "left out: 1 lines that hold no report, 0 records" in run(file).stderr


def test_a_cut_last_line(tmp_path: Path) -> None:
    made, file = cluster(), tmp_path / "worker.jsonl"
    whole = lines(made.sent("1"), made.received("1"), made.sent("2"))
    file.write_bytes(whole[:-40])
    losses = Losses()
    assert len(list(read_spool([file], losses))) == 2
    assert losses.named[0].startswith(f"{file}:3: ")
    assert losses.named[0].endswith("(the file ends in the middle of a line)")
    file.write_bytes(whole[:-1])
    assert len(list(read_spool([file]))) == 3, "a last line that only lacks its end is whole"


def test_a_bad_record_costs_only_itself(tmp_path: Path) -> None:
    made, file = cluster(), tmp_path / "worker.jsonl"
    report = json.loads(wire.encode(made.sent("1"), wire.JSON))
    report["observations"].append({**report["observations"][0], "stage": "teleport", "seq": 99})
    report["observations"].append({**report["observations"][0], "stage": "receive", "seq": 100})
    file.write_text(json.dumps(report))
    losses = Losses()
    [read] = read_spool([file], losses)
    assert [record.seq for record in read.observations] == [1]
    assert (losses.lines, losses.records) == (0, 2)
    assert "observations[1].stage: " in losses.named[0]
    assert "observations[2].stage: receive is a decode stage" in losses.named[1]


def test_a_line_without_an_end_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made, file = cluster(), tmp_path / "worker.jsonl"
    good = lines(made.sent("1"))
    monkeypatch.setattr(offline, "MAX_LINE", len(good))
    file.write_bytes(b"[" * (5 * len(good)) + b"\n" + good)
    losses = Losses()
    assert len(list(read_spool([file], losses))) == 1
    assert losses.lines == 1


def test_of_many_losses_the_first_are_named(tmp_path: Path) -> None:
    file = tmp_path / "worker.jsonl"
    file.write_bytes(b"{\n" * 50 + lines(cluster().sent("1")))
    stderr = run(file, code=exits.FINDING).stderr
    assert "left out: 50 lines" in stderr
    assert "  and 30 more" in stderr


def test_wrong_usage(spools: list[Path], tmp_path: Path) -> None:
    nothing = run(tmp_path / "none.jsonl", code=exits.USAGE)
    assert nothing.stderr.startswith(f"pd-tracer: {tmp_path}/none.jsonl: No such file")
    empty = tmp_path / "empty.jsonl"
    empty.touch()
    assert "no room in these files" in run(empty, code=exits.USAGE).stderr
    missing = run(*spools, "--room", "nosuch", code=exits.FINDING)
    assert (missing.stdout, missing.stderr) == (
        "",
        "pd-tracer: no room 'nosuch' in these files: without --room all are listed\n",
    )
    run(*spools, "--deployment", "none", code=exits.USAGE)
    run(code=exits.USAGE)


def test_which_deployment(tmp_path: Path) -> None:
    file = tmp_path / "all.jsonl"
    names = ("llama", "qwen")
    file.write_bytes(
        b"".join(lines(Cluster(speaker("prefill", "p", deployment=name)).sent("1")) for name in names)
    )
    refused = run(file, "--room", "1", code=exits.USAGE)
    assert "2 deployments have a room '1': say --deployment, one of: llama, qwen" in refused.stderr
    text = run(file, "--room", "1", "-d", "qwen", code=exits.FINDING).stdout
    assert "deployment  qwen" in text


def test_hostile_names_do_nothing_to_the_terminal(tmp_path: Path) -> None:
    hostile = "4\x1b[2J[bold]"
    file = tmp_path / "all.jsonl"
    bad = speaker("prefill", "p0")
    file.write_bytes(lines(bad.report(bad.look(hostile, Stage.send, request=hostile))))
    for extra in ([], ["--room", hostile]):
        text = run(file, *extra, code=exits.FINDING).stdout
        assert "4\\x1b[2J[bold]" in text
        assert all(line.isprintable() for line in text.splitlines())
