"""The demo as a whole: real processes, real NIXL, a real collector, and a verdict on all of it."""

import dataclasses
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tracer.demo import run
from tracer.demo.engine import what_is_missing
from tracer.demo.faults import Aim
from tracer.demo.plan import (
    DECODE,
    KINDS,
    PREFILL,
    PREFILL_HEAD_SLICE,
    PREFILL_WITHOUT_INDEX,
    Engine,
    Fault,
    Mix,
)
from tracer.demo.run import DemoOptions, run_demo
from tracer.demo.workers import Traffic

pytest.importorskip("torch", reason="the demo's buffers are torch tensors: pip install torch==2.13.0")
pytest.importorskip("nixl_cu12", reason="the demo moves bytes with NIXL: pip install nixl-cu12==1.5.1")


@pytest.fixture(autouse=True)
def own_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)
    for variable in ("UCX_TLS", "UCX_NET_DEVICES"):
        monkeypatch.delenv(variable, raising=False)
    return tmp_path


def small(*faults: Fault, rooms: int, seed: int = 3) -> DemoOptions:
    mix = Mix(rooms=rooms, faults=faults, rate=0.5, max_tokens=1500, concurrency=4, seed=seed)
    return DemoOptions(mix=mix, layers=4, as_json=True, timeout_s=80)


def rows(document: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {row["kind"]: row for row in document["rows"]}


@pytest.mark.parametrize("engine", ["nixl", pytest.param("mooncake", marks=pytest.mark.slow)])
def test_every_fault_is_found_and_nobody_blamed(engine: Engine, capfd: pytest.CaptureFixture[str]) -> None:
    if missing := what_is_missing(engine):
        pytest.skip(missing)
    before = _loopback_bytes()
    options = small(*KINDS, rooms=40)
    mix = dataclasses.replace(options.mix, engine=engine)
    status = run_demo(dataclasses.replace(options, mix=mix))
    crossed = _loopback_bytes() - before
    printed = capfd.readouterr()
    document = json.loads(printed.out)
    assert (status, document["problems"]) == (0, [])
    assert document["ok"] is True

    table = rows(document)
    assert set(table) == {"intact", "aborted_in_flight", *(fault.value for fault in KINDS)}
    for row in table.values():
        assert row["rooms"] == row["found"] == row["located"] >= 1
    assert table["intact"]["verdicts"] == {"match": table["intact"]["rooms"]}
    assert table["component_not_listed"]["verdicts"] == {"missing_component": 1}
    for fault in KINDS:
        assert fault.value in printed.err

    # Between processes, through the transfer engine, over a socket.
    workers = document["workers"]
    assert set(workers) == {PREFILL, PREFILL_WITHOUT_INDEX, PREFILL_HEAD_SLICE, DECODE}
    pids = {worker["pid"] for worker in workers.values()}
    assert len(pids | {os.getpid()}) == 5
    assert set(workers[DECODE]["peer_pids"]) == pids - {workers[DECODE]["pid"]}
    assert workers[DECODE]["writes"] == 0
    assert workers[DECODE]["signals"] >= workers[PREFILL]["writes"] > 0
    assert 1e7 < document["bytes_moved"] < crossed
    for pid in pids:
        assert not os.path.exists(f"/proc/{pid}")


def test_an_intact_run(capfd: pytest.CaptureFixture[str], own_directory: Path) -> None:
    assert run_demo(small(rooms=5)) == 0
    document = json.loads(capfd.readouterr().out)
    assert rows(document)["intact"]["verdicts"] == {"match": 5}
    assert set(document["workers"]) == {PREFILL, DECODE}
    assert list(own_directory.iterdir()) == []


def test_a_wrong_finding_fails_the_demo(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], own_directory: Path
) -> None:
    """The injector's log says another layer than was hit, so the collector's true answer is a wrong one."""

    class Lying(Traffic):
        def hear(self, child: Any, message: Any, workers: Any) -> None:
            super().hear(child, message, workers)
            self.aims = {index: _elsewhere(aim) for index, aim in self.aims.items()}

    monkeypatch.setattr(run, "Traffic", Lying)
    assert run_demo(small(Fault.bit_flip, rooms=4)) == 1
    printed = capfd.readouterr()
    document = json.loads(printed.out)
    assert document["ok"] is False
    assert len(document["problems"]) == 2
    assert all("layers" in problem for problem in document["problems"])
    # What a person needs to find out why stays.
    assert str(own_directory) in printed.err
    assert (own_directory / os.listdir(own_directory)[0] / "decode-a.log").exists()


def _elsewhere(aim: Aim) -> Aim:
    return Aim(fault=aim.fault, component=aim.component, layers=(9,), pages=aim.pages)


def _loopback_bytes() -> int:
    return int(Path("/sys/class/net/lo/statistics/tx_bytes").read_text())


@pytest.fixture
def running() -> Iterator[subprocess.Popen[str]]:
    code = (
        "from tracer.demo.run import *; import sys;"
        "sys.exit(run_demo(DemoOptions(mix=Mix(rooms=6, faults=(), max_tokens=500), keep=True)))"
    )
    environment = os.environ | {"PYTHONUNBUFFERED": "1", "COLUMNS": "200"}
    process = subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, env=environment
    )
    yield process
    process.kill()
    process.communicate()


def children_of(pid: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM])
def test_keeps_the_collector_until_told(running: subprocess.Popen[str], how: signal.Signals) -> None:
    assert running.stdout is not None
    lines = iter(running.stdout.readline, "")
    assert any("stays at http://127.0.0.1:" in line for line in lines)
    started = children_of(running.pid)
    assert started
    running.send_signal(how)
    assert running.wait(20) == 0
    assert not any(os.path.exists(f"/proc/{pid}") for pid in started)


def test_nothing_outlives_a_demo_that_is_killed(running: subprocess.Popen[str]) -> None:
    assert running.stdout is not None
    assert any("stays at http://127.0.0.1:" in line for line in iter(running.stdout.readline, ""))
    started = children_of(running.pid)
    running.kill()
    running.wait(20)
    deadline = time.monotonic() + 20
    while alive := [pid for pid in started if os.path.exists(f"/proc/{pid}") and not _ended(pid)]:
        assert time.monotonic() < deadline, alive
        time.sleep(0.05)


def _ended(pid: int) -> bool:
    """Whether the process is over, and only waits for whoever inherited it to take note."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] == "Z"
    except FileNotFoundError:
        return True


def test_a_worker_that_dies_ends_the_demo(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    killed: list[int] = []

    class Killing(Traffic):
        def hear(self, child: Any, message: Any, workers: Any) -> None:
            super().hear(child, message, workers)
            if self.closed and not killed:
                victim = next(worker for worker in workers if worker.name == PREFILL)
                victim.process.kill()
                killed.extend(worker.process.pid for worker in workers)

    monkeypatch.setattr(run, "Traffic", Killing)
    begun = time.monotonic()
    assert run_demo(small(rooms=60)) == 2
    assert time.monotonic() - begun < 30
    printed = capfd.readouterr()
    assert "The demo could not be run" in printed.err
    assert printed.out == ""
    assert killed
    assert not any(os.path.exists(f"/proc/{pid}") for pid in killed)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (DemoOptions(mix=Mix(rooms=3)), "rooms=3"),
        (DemoOptions(layers=0), "layers=0"),
        (DemoOptions(mix=Mix(max_tokens=1_000_000)), "max_tokens=1000000, rooms=60: a room of 15625 pages"),
    ],
)
def test_options_that_cannot_be(
    options: DemoOptions, message: str, capfd: pytest.CaptureFixture[str]
) -> None:
    assert run_demo(options) == 2
    assert message in capfd.readouterr().out


def test_says_what_to_install(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    assert run_demo(DemoOptions()) == 2
    assert "pip install torch==2.13.0 numpy nixl-cu12==1.5.1" in capfd.readouterr().out


def test_says_which_libraries_mooncake_lacks(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    def lacking(name: str) -> None:
        raise OSError(f"{name}: cannot open shared object file")

    monkeypatch.setattr("ctypes.CDLL", lacking)
    assert run_demo(DemoOptions(mix=Mix(engine="mooncake"))) == 2
    (line,) = capfd.readouterr().out.splitlines()
    assert line == "Mooncake needs system libraries: apt-get install -y libibverbs1 libnuma1 libcurl4"


def test_few_stages_show_fewer_causes(capfd: pytest.CaptureFixture[str]) -> None:
    """With ``send`` and ``receive`` alone the verdicts stay, and nothing is said that rests on more."""
    options = small(Fault.tail_unwritten, Fault.early_completion, Fault.source_changed, rooms=8)
    assert run_demo(dataclasses.replace(options, mix=dataclasses.replace(options.mix, stages="minimal"))) == 0
    document = json.loads(capfd.readouterr().out)
    for kind, row in rows(document).items():
        assert row["causes"] == ({} if kind == "intact" else {"unexplained": row["rooms"]})
