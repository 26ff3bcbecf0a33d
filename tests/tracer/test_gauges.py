"""Gauges that are read from the store: on both databases, the same on every replica, bounded."""

from __future__ import annotations

import time
from typing import Any

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.parser import text_string_to_metric_families
from sqlalchemy import insert
from support.exposition import scrape, value
from support.scenes import Scene
from support.serving import Server

from pd_tracer_hooks.wire import Side, Worker
from tracer.metrics.families import MAX_LABEL, MAX_SERIES
from tracer.metrics.gauges import StoreGauges
from tracer.store.codec import encode_json
from tracer.store.database import Database
from tracer.store.schema import rollups, rooms, workers

LLAMA = {"deployment": "llama", "prefill": "P0", "decode": "D0"}
QWEN = {"deployment": "qwen", "prefill": "P9", "decode": "D9"}


def test_after_a_few_rooms(server: Server) -> None:
    Scene(server).play()
    text = scrape(server)
    assert value(text, "pd_tracer_match_ratio", **LLAMA) == 0.5
    assert value(text, "pd_tracer_mismatch_ratio", **LLAMA) == 0.5
    assert value(text, "pd_tracer_match_ratio", **QWEN) == 1
    assert value(text, "pd_tracer_component_mismatch_ratio", **LLAMA, component="index_k") == 0.5
    assert value(text, "pd_tracer_component_match_ratio", **LLAMA, component="kv") == 1
    assert value(text, "pd_tracer_rooms_pending", deployment="llama") == 1
    assert value(text, "pd_tracer_rooms_pending", deployment="qwen") == 0
    oldest = value(text, "pd_tracer_oldest_pending_age_seconds", deployment="llama")
    assert oldest is not None
    assert 0 <= oldest < 60
    assert value(text, "pd_tracer_oldest_pending_age_seconds", deployment="qwen") == 0
    age = value(
        text,
        "pd_tracer_worker_last_report_age_seconds",
        deployment="llama",
        side="decode",
        server="D0",
        worker="d0",
    )
    assert age is not None
    assert 0 <= age < 60


def read(database: Database, *, now: float, window_s: float = 900) -> dict[str, dict[tuple[str, ...], float]]:
    """What a collector of its own would export: values by family and labels, sorted by their names."""
    registry = CollectorRegistry()
    registry.register(StoreGauges(database, window_s, clock=lambda: now))
    text = generate_latest(registry).decode()
    return {
        metric.name: {
            tuple(value for _, value in sorted(sample.labels.items())): sample.value
            for sample in metric.samples
        }
        for metric in text_string_to_metric_families(text)
    }


def rollup(minute: int, verdict: str, count: int, **other: Any) -> dict[str, Any]:
    return {
        "minute": minute,
        "deployment": "llama",
        "prefill_server": "P0",
        "decode_server": "D0",
        "component": "",
        "verdict": verdict,
        "replica": "r1",
        "count": count,
        **other,
    }


def worker(name: str, last_seen: float, **other: str) -> dict[str, Any]:
    identity = Worker(id=name, boot="1", deployment="llama", side=Side.decode, server="D0", **other)
    return {
        "deployment": "llama",
        "worker": name,
        "boot": "1",
        "side": "decode",
        "server": "D0",
        "first_seen": 0.0,
        "last_seen": last_seen,
        "body": encode_json(identity).decode(),
    }


NOW = 1_000_000 * 60.0


def test_replicas_add_up_and_the_window_ends(database: Database) -> None:
    minute = int(NOW // 60)
    with database.write.begin() as connection:
        connection.execute(
            insert(rollups),
            [
                rollup(minute, "match", 3),
                rollup(minute, "match", 4, replica="r2"),
                rollup(minute - 14, "mismatch", 1, replica="r2"),
                rollup(minute - 16, "mismatch", 100),
                rollup(minute, "missing_decode", 50),
                rollup(minute, "missing_decode", 5, decode_server="D1"),
            ],
        )
    found = read(database, now=NOW)
    assert found["pd_tracer_match_ratio"] == {("D0", "llama", "P0"): 7 / 8}
    assert found["pd_tracer_mismatch_ratio"] == {("D0", "llama", "P0"): 1 / 8}
    assert read(database, now=NOW) == found
    later = read(database, now=NOW + 20 * 60)
    assert not later.get("pd_tracer_match_ratio")
    assert later["pd_tracer_store_readable"] == {(): 1}


def test_workers_expire_a_day_after_their_last_report(database: Database) -> None:
    with database.write.begin() as connection:
        connection.execute(insert(workers), [worker("old", NOW - 86_401), worker("new", NOW - 86_399)])
    ages = read(database, now=NOW)["pd_tracer_worker_last_report_age_seconds"]
    assert ages == {("llama", "D0", "decode", "new"): 86_399}


def test_a_clock_that_is_behind_makes_no_age_negative(database: Database) -> None:
    pending = {"day": 1, "deployment": "llama", "room": "1", "verdict": "pending", "body": b""}
    with database.write.begin() as connection:
        connection.execute(insert(workers), [worker("w", NOW + 5)])
        connection.execute(insert(rooms), [{**pending, "first_seen": NOW + 5, "last_seen": NOW + 5}])
    found = read(database, now=NOW)
    assert found["pd_tracer_worker_last_report_age_seconds"] == {("llama", "D0", "decode", "w"): 0}
    assert found["pd_tracer_oldest_pending_age_seconds"] == {("llama",): 0}
    assert found["pd_tracer_rooms_pending"] == {("llama",): 1}


def test_long_names_that_are_alike_when_cut_are_one_series(database: Database) -> None:
    minute = int(NOW // 60)
    long = "x" * 200
    with database.write.begin() as connection:
        connection.execute(
            insert(rollups),
            [
                rollup(minute, "match", 1, prefill_server=long + "1"),
                rollup(minute, "mismatch", 1, prefill_server=long + "2"),
            ],
        )
        connection.execute(insert(workers), [worker(long + "1", NOW - 1), worker(long + "2", NOW - 9)])
    found = read(database, now=NOW)
    [(labels, ratio)] = found["pd_tracer_match_ratio"].items()
    assert ratio == 0.5
    assert max(map(len, labels)) == MAX_LABEL
    [age] = found["pd_tracer_worker_last_report_age_seconds"].values()
    assert age == 9


def test_more_names_than_a_family_may_have_are_counted_together(database: Database) -> None:
    minute = int(NOW // 60)
    made = [rollup(minute, "match", 2, prefill_server=f"P{number}") for number in range(MAX_SERIES)]
    made += [rollup(minute, "mismatch", 1, prefill_server=f"Q{number}") for number in range(10)]
    with database.write.begin() as connection:
        connection.execute(insert(rollups), made)
        connection.execute(
            insert(workers), [worker(f"w{number:05}", NOW - number) for number in range(MAX_SERIES + 10)]
        )
    begun = time.monotonic()
    found = read(database, now=NOW)
    assert time.monotonic() - begun < 5
    ratios = found["pd_tracer_match_ratio"]
    assert len(ratios) == MAX_SERIES + 1
    assert ratios["other", "other", "other"] == 0
    ages = found["pd_tracer_worker_last_report_age_seconds"]
    assert len(ages) == MAX_SERIES + 1
    assert ages["other", "other", "other", "other"] == MAX_SERIES + 9


def test_a_store_that_is_away(database: Database) -> None:
    with database.write.begin() as connection:
        connection.exec_driver_sql("ALTER TABLE rollups RENAME TO elsewhere")
    assert read(database, now=NOW) == {"pd_tracer_store_readable": {(): 0}}
