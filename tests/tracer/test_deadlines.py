"""A side that never comes: found by time alone, also after a restart."""

from __future__ import annotations

import time
from collections.abc import Callable

from support.reports import KEY, Cluster
from support.serving import Server, serve

from pd_tracer_hooks.wire import EventKind
from tracer.settings import Settings
from tracer.store.deadlines import Deadlines, due_rooms


def until(what: Callable[[], bool], seconds: float = 20.0) -> None:
    end = time.monotonic() + seconds
    while not what():
        assert time.monotonic() < end, "it did not happen in time"
        time.sleep(0.02)


def quick(settings: Settings, **changes: float) -> Settings:
    return settings.model_copy(update={"send_deadline_s": 0.3, "open_deadline_s": 0.3, **changes})


def test_missing_sides_when_nothing_else_arrives(settings: Settings) -> None:
    cluster = Cluster()
    opened = cluster.decode.event("opened", EventKind.opened, keys=[KEY], peer="P0")
    with serve(quick(settings)) as server:
        server.tell(cluster.sent("sent", peer="D0"), cluster.decode.report(opened))
        assert server.verdict("sent") == "pending"
        until(lambda: server.verdict("opened") == "missing_prefill")
        until(lambda: server.verdict("sent") == "missing_decode")
        assert server.sql("SELECT count(*) FROM rooms WHERE deadline IS NOT NULL") == [(0,)]
        pair = {"deployment": "llama", "prefill": "P0", "decode": "D0"}
        until(lambda: server.metric("pd_tracer_rooms_settled_total", **pair, verdict="missing_decode") == 1)


def test_a_late_side_revises(settings: Settings) -> None:
    cluster = Cluster()
    with serve(quick(settings)) as server:
        server.tell(cluster.sent("1", peer="D0"))
        until(lambda: server.verdict("1") == "missing_decode")
        server.tell(cluster.received("1"))
        assert server.verdict("1") == "match"
        changed = {"from": "missing_decode", "to": "match"}
        assert server.metric("pd_tracer_verdict_revisions_total", **changed) == 1
        rolled = server.sql(
            "SELECT verdict, sum(count) FROM rollups WHERE component = '' GROUP BY verdict ORDER BY verdict"
        )
        assert [(verdict, int(count)) for verdict, count in rolled] == [("match", 1), ("missing_decode", 0)]


def test_the_deadline_is_remembered_over_a_restart(settings: Settings) -> None:
    with serve(settings) as server:
        server.tell(Cluster().sent("1", peer="D0"))
        [(deadline,)] = server.sql("SELECT deadline FROM rooms")
        assert due_rooms(server.collector.database, deadline - 1, 10) == []
        assert due_rooms(server.collector.database, deadline, 10) == [("llama", "1")]
    with serve(settings) as server:
        later = server.collector.deadlines
        later._clock = server.collector.writer._clock = lambda: deadline + 1
        until(lambda: server.verdict("1") == "missing_decode")


def test_a_sweep_goes_on_until_nothing_is_due(server: Server) -> None:
    cluster = Cluster()
    server.tell(*(cluster.sent(str(n), peer="D0") for n in range(25)))
    collector = server.collector
    collector.deadlines.stop()

    def later() -> float:
        return time.time() + 1000

    collector.writer._clock = later
    sweeper = Deadlines(collector.database, collector.writer, clock=later, round_size=10)
    assert sweeper.sweep() == 25
    assert server.sql("SELECT verdict, count(*) FROM rooms GROUP BY verdict") == [("missing_decode", 25)]
    assert sweeper.sweep() == 0
