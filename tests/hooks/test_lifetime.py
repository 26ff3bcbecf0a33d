"""Agents at the end of their process and in a forked child, in processes of their own."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
from support.recorder import Recorder, recording

PROGRAM = """
    import sys
    from pd_tracer_hooks.agent import Agent
    from pd_tracer_hooks.digest.cpu import CpuBackend
    from pd_tracer_hooks.identity import describe_worker
    from pd_tracer_hooks.settings import Settings
    from pd_tracer_hooks.wire import EventKind, Side

    settings = Settings(url={url!r}, deployment="d", flush_ms=60_000.0, shutdown_s=10.0)
    agents = [
        Agent(settings, describe_worker(settings, side=Side.prefill, rank=rank), backend=CpuBackend())
        for rank in range(3)
    ]
    for agent in agents:
        agent.event(EventKind.opened, "r")
    {end}
"""


def run(url: str, end: str) -> subprocess.CompletedProcess[str]:
    program = textwrap.dedent(PROGRAM.format(url=url, end=end))
    return subprocess.run(
        [sys.executable, "-W", "error", "-c", program],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


@pytest.mark.parametrize(
    ("end", "status"), [("pass", 0), ("sys.exit(3)", 3), ("raise KeyboardInterrupt", -2), ("1 / 0", 1)]
)
def test_what_is_queued_is_delivered_when_the_process_ends(end: str, status: int) -> None:
    with recording(Recorder()) as recorder:
        done = run(recorder.url, end)
    assert done.returncode == status, done.stderr
    assert sorted(report.worker.rank for report in recorder.reports if report.events) == [0, 1, 2]


def test_an_agent_that_cannot_be_closed_keeps_no_other_from_it() -> None:
    with recording(Recorder()) as recorder:
        done = run(recorder.url, "agents[1].close = lambda: 1 / 0")
    assert done.returncode == 0, done.stderr
    assert "a fault while closing: division by zero" in done.stderr
    assert {0, 2} <= {report.worker.rank for report in recorder.reports if report.events}


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the system has no fork")
def test_a_forked_child_traces_under_a_boot_of_its_own(tmp_path: Path) -> None:
    with recording(Recorder()) as recorder:
        _fork(recorder, tmp_path)
    boots: dict[str, set[str]] = {}
    for report in recorder.reports:
        for event in report.events:
            boots.setdefault(event.room, set()).add(report.worker.boot)
    assert len(boots["parent"]) == 1
    assert len(boots["child"]) == 1
    assert boots["parent"] != boots["child"]
    assert {report.worker.boot for report in recorder.reports} == boots["parent"] | boots["child"], (
        "a child that traced nothing said nothing"
    )
    by_boot = [report.worker.boot for report in recorder.reports for _ in report.manifests]
    assert sorted(by_boot) == sorted([*boots["parent"], *boots["child"]])


def _fork(recorder: Recorder, tmp_path: Path) -> None:
    script = tmp_path / "forks.py"
    script.write_text(
        textwrap.dedent(
            f"""
            import os, sys, warnings
            warnings.simplefilter("ignore", DeprecationWarning)  # of forking with threads: what is tested
            from pd_tracer_hooks.agent import Agent
            from pd_tracer_hooks.digest.cpu import CpuBackend
            from pd_tracer_hooks.identity import describe_worker
            from pd_tracer_hooks.settings import Settings
            from pd_tracer_hooks.wire import EventKind, Side

            settings = Settings(url={recorder.url!r}, deployment="d", flush_ms=5.0, raise_faults=False)
            agent = Agent(settings, describe_worker(settings, side=Side.prefill), backend=CpuBackend())
            agent.manifest([])
            agent.event(EventKind.opened, "parent")
            # As threads may hold them at the moment of the fork, which are not there in the child.
            locks = [
                part._lock
                for part in (agent._guard, agent._drops, agent._outbox, agent._reader, agent._records._marks)
            ]
            for lock in [*locks, agent._start_lock]:
                lock.acquire()
            children = []
            for name in ("child", ""):
                pid = os.fork()
                if pid == 0:
                    if name:
                        agent.observe(None)  # a fault of ours
                        agent.event(EventKind.opened, name)
                    os._exit(0 if agent.close(5) else 1)
                children.append(pid)
            for lock in [*locks, agent._start_lock]:
                lock.release()
            ok = all(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0 for pid in children)
            agent.event(EventKind.freed, "parent")
            sys.exit(0 if agent.close(5) and ok else 1)
            """
        )
    )
    done = subprocess.run(
        [sys.executable, "-W", "error", str(script)], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
