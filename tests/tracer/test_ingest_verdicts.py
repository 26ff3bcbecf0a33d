"""From a posted report to the stored verdict: order, repetition, restart. On both databases."""

from __future__ import annotations

import time

import pytest
from support.reports import DAMAGED, KEY, PARTS, Cluster, speaker
from support.rooms import INDEX_K, KV
from support.serving import Server, serve

from pd_tracer_hooks.wire import EventKind, Report, Stage
from tracer.settings import Settings
from tracer.store.batch import make_batch


def merged(cluster: Cluster, *rooms: str) -> tuple[Report, Report]:
    """All rooms of each side in one report."""
    return (
        cluster.prefill.report(*(cluster.prefill.look(room, Stage.send) for room in rooms)),
        cluster.decode.report(*(cluster.decode.look(room, Stage.receive) for room in rooms)),
    )


@pytest.mark.parametrize("order", ["prefill first", "decode first"])
def test_sides_in_either_order(server: Server, order: str) -> None:
    cluster = Cluster()
    reports = [cluster.sent("1"), cluster.received("1")]
    server.tell(*(reports if order == "prefill first" else reversed(reports)))
    assert server.verdict("1") == "match"


def test_mismatch_names_the_component(server: Server) -> None:
    cluster = Cluster()
    server.tell(cluster.sent("1"), cluster.received("1", components=DAMAGED))
    [row] = server.sql(
        "SELECT verdict, cause, coverage, worst_components, prefill_server, decode_server FROM rooms"
    )
    assert tuple(row) == ("mismatch", "unexplained", "full", ",index_k,", "P0", "D0")


def test_both_sides_in_one_transaction(server: Server) -> None:
    """Both wait in the queue while the writer is held, so that they are written together."""
    cluster = Cluster()
    writer = server.collector.writer
    batches = [
        make_batch(r, r.observations, r.events, r.manifests, received=time.time(), size=1)
        for r in (cluster.sent("1"), cluster.received("1"))
    ]
    with writer._ready:  # what a slow commit does: it cannot take from the queue meanwhile
        answers = [writer._put(batch) for batch in batches]
    assert [answer.result(10).accepted for answer in answers] == [1, 1]
    assert server.verdict("1") == "match"
    assert server.metric("pd_tracer_flush_seconds_count") == 1


def test_the_same_batch_twice(server: Server) -> None:
    cluster = Cluster()
    sent, received = cluster.sent("1"), cluster.received("1")
    first = server.tell(sent, received)
    again = server.tell(received, sent, received)
    assert [(a.accepted, a.duplicate, a.conflicting) for a in first] == [(1, 0, 0)] * 2
    assert [(a.accepted, a.duplicate, a.conflicting) for a in again] == [(0, 1, 0)] * 3
    assert server.sql("SELECT count(*) FROM records") == [(2,)]
    labels = {"deployment": "llama", "prefill": "P0", "decode": "D0", "verdict": "match"}
    assert server.metric("pd_tracer_rooms_settled_total", **labels) == 1
    assert server.sql("SELECT sum(count) FROM rollups WHERE component = ''") == [(1,)]


def test_duplicates_and_conflicts_inside_one_report(server: Server) -> None:
    prefill = speaker("prefill", "p0")
    first = prefill.look("1", Stage.send)
    other = prefill.look("1", Stage.send, components=DAMAGED, seq=first.seq)
    [answer] = server.tell(prefill.report(first, first, other))
    assert (answer.accepted, answer.duplicate, answer.conflicting) == (1, 1, 1)


def test_the_first_of_conflicting_values_stays(server: Server) -> None:
    cluster = Cluster()
    good = cluster.decode.look("1", Stage.receive)
    bad = cluster.decode.look("1", Stage.receive, components=DAMAGED, seq=good.seq)
    server.tell(cluster.sent("1"), cluster.decode.report(good))
    [answer] = server.tell(cluster.decode.report(bad))
    assert (answer.accepted, answer.conflicting) == (0, 1)
    assert server.verdict("1") == "match"


def test_a_restart_forgets_no_pending_room(settings: Settings) -> None:
    cluster = Cluster()
    sent, received = merged(cluster, *map(str, range(20)))
    with serve(settings) as server:
        server.tell(sent)
        assert server.verdict("7") == "pending"
    with serve(settings) as server:
        [again, answer] = server.tell(sent, received)
        assert (again.duplicate, answer.accepted) == (20, 20)
        assert server.sql("SELECT verdict, count(*) FROM rooms GROUP BY verdict") == [("match", 20)]


def test_rooms_are_unique_within_a_deployment_only(server: Server) -> None:
    one, other = Cluster(), Cluster()
    other.decode = speaker("decode", "d0", deployment="qwen")
    server.tell(one.sent("1"), other.received("1"))
    assert server.sql("SELECT deployment, verdict FROM rooms ORDER BY deployment") == [
        ("llama", "pending"),
        ("qwen", "pending"),
    ]


def test_a_late_mismatch_revises_and_counts(server: Server) -> None:
    """kv alone makes a match; index_k comes later and differs."""
    cluster = Cluster()
    kv, index_k = DAMAGED
    server.tell(
        cluster.sent("1", components=[kv]),
        cluster.received("1", components=[kv]),
    )
    assert server.verdict("1") == "match"
    server.tell(cluster.sent("1", components=[PARTS[1]]), cluster.received("1", components=[index_k]))
    assert server.verdict("1") == "mismatch"
    pair = {"deployment": "llama", "prefill": "P0", "decode": "D0"}
    assert server.metric("pd_tracer_rooms_settled_total", **pair, verdict="mismatch") == 1
    assert server.metric("pd_tracer_mismatch_causes_total", **pair, cause="unexplained") == 1
    counted = dict(
        server.sql(
            "SELECT verdict, sum(count) FROM rollups WHERE component = '' GROUP BY verdict"
            " HAVING sum(count) <> 0"
        )
    )
    assert counted == {"mismatch": 1}


def test_a_manifest_that_comes_late_has_pending_rooms_judged_again(server: Server) -> None:
    """index_k may still come, until decode's manifest says that it never will."""
    cluster = Cluster()
    server.tell(
        cluster.prefill.report(cluster.prefill.manifest(KV.in_manifest(), INDEX_K.in_manifest())),
        cluster.sent("1"),
        cluster.received("1", components=[PARTS[0]]),
    )
    before = server.verdict("1")
    late = cluster.decode.manifest(KV.in_manifest(), INDEX_K.in_manifest(moved=False))
    server.tell(cluster.decode.report(late))
    # The rooms follow in a transaction of their own; this one comes after it.
    server.tell(cluster.decode.report())
    assert (before, server.verdict("1")) == ("pending", "missing_component")


def test_an_alias_becomes_the_server(server: Server) -> None:
    """Decode alone speaks and calls its peer by the bootstrap address."""
    cluster = Cluster(prefill=speaker("prefill", "p0", aliases=["10.0.0.1:8998"]))
    server.tell(cluster.prefill.report())
    opened = cluster.decode.event("1", EventKind.opened, keys=[KEY], peer="10.0.0.1:8998")
    server.tell(cluster.decode.report(opened))
    assert server.sql("SELECT prefill_server, decode_server FROM rooms") == [("P0", "D0")]
    labels = {"deployment": "llama", "prefill": "P0", "decode": "D0", "verdict": "mismatch"}
    assert server.metric("pd_tracer_rooms_settled_total", **labels) == 0
