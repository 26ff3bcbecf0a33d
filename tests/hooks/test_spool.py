"""Reports into files: what is written, how much of it is kept, and who may share a file."""

from __future__ import annotations

import json
import threading
from pathlib import Path

import msgspec
import pytest

from pd_tracer_hooks.agent import Agent
from pd_tracer_hooks.capture import ComponentLook, Look
from pd_tracer_hooks.digest.backend import Pool
from pd_tracer_hooks.digest.cpu import CpuBackend
from pd_tracer_hooks.identity import describe_worker
from pd_tracer_hooks.layout import PageLayout
from pd_tracer_hooks.settings import Settings, SettingsError
from pd_tracer_hooks.spool import Spool, SpoolTransport, spool_path
from pd_tracer_hooks.version import WIRE_VERSION
from pd_tracer_hooks.wire import Answer, EventKind, Report, Side, Stage, Worker, decoder, encode

POOL = Pool("kv", PageLayout.plain(4, 16), {layer: bytes(range(64)) * 8 for layer in (0, 1)})
WORKER = Worker(id="P0/prefill 0", boot="b1", deployment="d", side=Side.prefill, server="P0")
_reports = decoder(Report, "application/json")


def spool(path: Path, limit: int = 1 << 20) -> tuple[Spool, list[int]]:
    lost: list[int] = []
    return Spool(path, limit, lost.append), lost


def test_an_agent_writes_what_it_would_post(tmp_path: Path) -> None:
    settings = Settings(url=f"file://{tmp_path}/a%20folder/", deployment="d", server="P0", flush_ms=5.0)
    agent = Agent(settings, describe_worker(settings, side=Side.prefill), backend=CpuBackend())
    agent.manifest([POOL])
    agent.event(EventKind.opened, "r", keys=["0" * 16])
    part = ComponentLook(pool=POOL, pages=[3, 4], total_pages=2)
    agent.observe(Look(room="r", keys=["0" * 16], stage=Stage.send, components=[part]))
    assert agent.close(5)
    (file,) = (tmp_path / "a folder").glob("*.jsonl")
    reports = [_reports.decode(line) for line in file.read_bytes().splitlines()]
    assert sum(len(r.manifests) for r in reports) == 1
    (seen,) = (record for report in reports for record in report.observations)
    assert seen.components[0].cells == [4, 4, 0]
    assert agent.stats.drops == {}
    assert agent.stats.sent == 3


def test_the_latest_reports_are_kept_and_the_others_counted(tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    made, lost = spool(path, limit=400)
    lines = [b'{"n": %03d}' % number + b" " * 30 + b"\n" for number in range(40)]
    for line in lines:
        made.append(line)
    made.close()
    older, newer = (tmp_path / "x.1.jsonl").read_bytes(), path.read_bytes()
    assert max(len(older), len(newer)) <= 200
    kept = (older + newer).splitlines(keepends=True)
    assert kept == lines[-len(kept) :]
    assert sum(lost) + len(kept) == len(lines)


def test_a_line_larger_than_the_spool_is_still_written(tmp_path: Path) -> None:
    made, lost = spool(tmp_path / "x.jsonl", limit=10)
    for text in (b"a" * 50 + b"\n", b"b" * 50 + b"\n"):
        made.append(text)
    assert (tmp_path / "x.jsonl").read_bytes() == b"b" * 50 + b"\n"
    assert lost == []
    made.close()


def test_a_cut_line_costs_only_itself(tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    path.write_bytes(b'{"whole": 1}\n{"cut": ')
    made, _ = spool(path)
    made.append(b'{"next": 2}\n')
    made.close()
    assert path.read_bytes().splitlines() == [b'{"whole": 1}', b'{"cut": ', b'{"next": 2}']


def test_writers_share_a_file(tmp_path: Path) -> None:
    """Each opens it anew, as processes do; it is rotated under them all the time."""
    path, each = tmp_path / "x.jsonl", 200
    losts = []

    def write(name: int) -> None:
        made, lost = spool(path, limit=4000)
        losts.append(lost)
        for number in range(each):
            made.append(json.dumps({"name": name, "number": number}).encode() + b"\n")
        made.close()

    threads = [threading.Thread(target=write, args=(name,)) for name in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    lines = [json.loads(line) for file in tmp_path.glob("*.jsonl") for line in file.read_text().splitlines()]
    assert len(lines) + sum(map(sum, losts)) == 4 * each
    for name in range(4):
        numbers = sorted(line["number"] for line in lines if line["name"] == name)
        assert numbers == list(range(each - len(numbers), each)) or numbers == []


def test_the_answer_counts_what_was_written(tmp_path: Path) -> None:
    made, _ = spool(tmp_path / "deep" / "er" / "x.jsonl")
    transport = SpoolTransport(made)
    report = Report(wire=WIRE_VERSION, worker=WORKER)
    response = transport.send(encode(report), 1.0)
    transport.close()
    assert response.status == 200
    assert msgspec.msgpack.decode(response.body, type=Answer).accepted == 0
    assert _reports.decode((tmp_path / "deep" / "er" / "x.jsonl").read_bytes()) == report


def test_a_place_that_cannot_be_written_is_an_absence(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    made, _ = spool(tmp_path / "file" / "x.jsonl")
    with pytest.raises(OSError, match="file"):
        made.append(b"{}\n")


@pytest.mark.parametrize(
    ("url", "name"),
    [
        ("file://{}/x.jsonl", "x.jsonl"),
        ("file://localhost{}/x.jsonl", "x.jsonl"),
        ("file://{}/new/", "new/P0_prefill_0-b1.jsonl"),
        ("file://{}", "P0_prefill_0-b1.jsonl"),
    ],
)
def test_a_folder_has_a_file_for_each_process(tmp_path: Path, url: str, name: str) -> None:
    assert spool_path(url.format(tmp_path), WORKER) == tmp_path / name


@pytest.mark.parametrize("url", ["file://host/x", "file:x.jsonl", "file:", "file:///x?y"])
def test_other_file_urls_are_refused(url: str) -> None:
    with pytest.raises(SettingsError, match="file:///FOLDER/"):
        Settings(url=url, deployment="d")


def test_a_spool_too_small_is_refused() -> None:
    with pytest.raises(SettingsError, match="SPOOL_BYTES"):
        Settings(url="file:///tmp/", deployment="d", spool_bytes=10)
