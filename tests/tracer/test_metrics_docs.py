"""docs/metrics.md lists what a running collector exports, and every metric of it moves."""

from __future__ import annotations

import re
import shutil
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from support.exposition import Samples, families, samples, scrape, value
from support.reports import DAMAGED, Cluster
from support.rooms import INDEX_K, KV
from support.serving import Server, serve

from tracer.settings import Settings
from tracer.store import judging

DOCS = (Path(__file__).resolve().parents[2] / "docs/metrics.md").read_text()


class Documented(NamedTuple):
    """One row of a table."""

    type: str
    labels: frozenset[str]
    unit: str
    meaning: str


def documented() -> dict[str, Documented]:
    rows = re.findall(r"^\| `(\w+)` \| (\w+) \| ([^|]*) \| ([^|]*) \| ([^|]*) \|$", DOCS, re.MULTILINE)
    return {
        name: Documented(kind, frozenset(re.findall(r"`(\w+)`", labels)), unit.strip(), meaning.strip())
        for name, kind, labels, unit, meaning in rows
    }


@pytest.fixture
def server(sqlite_url: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    judge = judging.judge

    def faulty(entries: Any, *rest: Any, **other: Any) -> Any:
        if any(entry.record.room == "poison" for entry in entries):
            raise RuntimeError("a fault in the join")
        return judge(entries, *rest, **other)

    monkeypatch.setattr(judging, "judge", faulty)
    settings = Settings(database_url=sqlite_url, port=0, replica="test", send_deadline_s=0.3)
    with serve(settings) as running:
        yield running


def until(server: Server, name: str, least: float, **labels: str) -> str:
    """Scrape until a series has at least a value."""
    deadline = time.monotonic() + 20
    while (value(text := scrape(server), name, **labels) or 0) < least:
        assert time.monotonic() < deadline, f"{name} never became {least}:\n{text}"
        time.sleep(0.02)
    return text


def load(server: Server) -> Iterator[str]:
    """Let everything happen that is counted; yields what `/metrics` said at each turn."""
    yield scrape(server)
    cluster = Cluster()
    prefill, decode = cluster.prefill, cluster.decode
    server.tell(
        prefill.report(prefill.manifest(KV.in_manifest(), INDEX_K.in_manifest())),
        decode.report(drops={"queue_full": 3}),
        cluster.sent("good"),
    )
    yield scrape(server)
    server.tell(cluster.received("good"), cluster.sent("bad"), cluster.received("bad", components=DAMAGED))
    yield scrape(server)
    # Decode is missing, then it comes after all.
    late = cluster.sent("late")
    server.tell(late)
    labels = {"deployment": "llama", "prefill": "P0", "decode": "", "verdict": "missing_decode"}
    yield until(server, "pd_tracer_rooms_settled_total", 1, **labels)
    server.tell(late, cluster.received("late"))
    yield until(server, "pd_tracer_verdict_revisions_total", 1, **{"from": "missing_decode", "to": "match"})
    assert server.post(b"\xc1").status_code == 400
    server.tell(cluster.sent("poison"))
    yield scrape(server)
    yield with_a_queue(server, cluster)
    yield without_a_table(server)


def with_a_queue(server: Server, cluster: Cluster) -> str:
    """Batches wait behind one that the database holds up: the writer takes what is there, then no more."""
    threads: list[threading.Thread] = []
    with server.collector.database.write.begin():
        deadline = time.monotonic() + 20
        while (value(text := scrape(server), "pd_tracer_queue_batches") or 0) < 1:
            assert time.monotonic() < deadline, f"nothing waits:\n{text}"
            thread = threading.Thread(target=server.tell, args=(cluster.sent(f"queued-{len(threads)}"),))
            thread.start()
            threads.append(thread)
            time.sleep(0.05)
    for thread in threads:
        thread.join(20)
    return text


def without_a_table(server: Server) -> str:
    for change in ("rollups RENAME TO away", "away RENAME TO rollups"):
        with server.collector.database.write.begin() as connection:
            connection.exec_driver_sql(f"ALTER TABLE {change}")
        if "away RENAME" not in change:
            text = scrape(server)
    assert value(scrape(server), "pd_tracer_store_readable") == 1
    return text


def test_every_metric_is_documented_and_moves(server: Server) -> None:
    seen: dict[str, list[Samples]] = {}
    types: dict[str, str] = {}
    for turn, text in enumerate(load(server)):
        for name, metric in families(text).items():
            seen.setdefault(name, [{} for _ in range(turn)]).append(samples(metric))
            types[name] = metric.type
    rows = documented()
    assert set(seen) == set(rows)
    for name, row in rows.items():
        labels = {label for turn in seen[name] for _, series in turn for label, _ in series} - {"le"}
        assert (types[name], labels) == (row.type, row.labels), name
        assert row.unit, name
        assert len(row.meaning) > 20, name
        assert any(turn != seen[name][0] for turn in seen[name]), f"{name} never moved"


def test_kinds_and_reasons_are_documented(server: Server) -> None:
    rows = documented()
    for text in load(server):
        for name, labels in (
            ("pd_tracer_reports_total", ("kind", "outcome")),
            ("pd_tracer_refusals_total", ("reason",)),
        ):
            for _, series in samples(families(text)[name]):
                for label in labels:
                    assert f"`{dict(series)[label]}`" in rows[name].meaning


@pytest.mark.skipif(shutil.which("promtool") is None, reason="promtool is not installed (package prometheus)")
def test_promtool_finds_nothing(server: Server) -> None:
    for text in load(server):
        done = subprocess.run(
            ["promtool", "check", "metrics"], input=text, capture_output=True, text=True, check=False
        )
        assert (done.returncode, done.stdout + done.stderr) == (0, ""), text


def test_openmetrics_where_it_is_asked_for(server: Server) -> None:
    answer = server.http.get("/metrics", headers={"Accept": "application/openmetrics-text; version=1.0.0"})
    assert answer.headers["content-type"].startswith("application/openmetrics-text")
    assert answer.text.endswith("# EOF\n")
