"""Counters: bounded families, pairs at zero from the start, workers that are gone."""

from __future__ import annotations

import pytest
from prometheus_client import CollectorRegistry, generate_latest
from support.reports import DAMAGED, Cluster, speaker
from support.serving import Server, serve

from pd_tracer_hooks.wire import Stage
from tracer.metrics.families import MAX_LABEL, OTHER, Family, label
from tracer.settings import Settings

PAIR = {"deployment": "llama", "prefill": "P0", "decode": "D0"}


def family(registry: CollectorRegistry, now: list[float] | None = None) -> Family:
    clock = (lambda: now[0]) if now is not None else (lambda: 0.0)
    return Family(
        "things", "Things.", ("who", "what"), registry=registry, identity=1, max_series=3, clock=clock
    )


def test_a_family_has_a_bound() -> None:
    registry = CollectorRegistry()
    things = family(registry)
    for number in range(10):
        things.add((f"w{number}", "x"))
    things.add(("w0", "x"), 5)
    assert registry.get_sample_value("things_total", {"who": "w0", "what": "x"}) == 6
    assert registry.get_sample_value("things_total", {"who": OTHER, "what": "x"}) == 7
    assert registry.get_sample_value("things_total", {"who": "w7", "what": "x"}) is None


def test_series_expire() -> None:
    registry, now = CollectorRegistry(), [0.0]
    things = family(registry, now)
    for number in range(3):
        now[0] = float(number)
        things.add((f"w{number}", "x"))
    things.expire(before=2.0)
    assert b'w0"' not in generate_latest(registry)
    assert registry.get_sample_value("things_total", {"who": "w2", "what": "x"}) == 1
    things.add(("w9", "x"))
    assert registry.get_sample_value("things_total", {"who": "w9", "what": "x"}) == 1


def test_labels_have_a_length() -> None:
    assert label("x" * MAX_LABEL) == "x" * MAX_LABEL
    assert len(label("x" * 1000)) == MAX_LABEL


def test_two_long_names_that_look_alike_do_not_collide() -> None:
    """Cut to the same label they share a series, and expiring one must not fail for the other."""
    registry = CollectorRegistry()
    things = family(registry)
    things.add(("x" * 200 + "a", "x"))
    things.add(("x" * 200 + "b", "x"))
    assert registry.get_sample_value("things_total", {"who": label("x" * 201), "what": "x"}) == 2
    things.expire(before=1.0)
    assert b"xxx" not in generate_latest(registry)


def test_a_known_pair_is_at_zero_also_after_a_restart(settings: Settings) -> None:
    cluster = Cluster()
    with serve(settings) as server:
        server.tell(cluster.sent("1"), cluster.received("1"))
        assert server.metric("pd_tracer_rooms_settled_total", **PAIR, verdict="mismatch") == 0
    with serve(settings) as server:
        for verdict, expected in (("mismatch", 0), ("match", None)):
            assert server.metric("pd_tracer_rooms_settled_total", **PAIR, verdict=verdict) == expected
        for component in ("kv", "index_k"):
            labels = {**PAIR, "component": component, "verdict": "mismatch"}
            assert server.metric("pd_tracer_components_settled_total", **labels) == 0


def test_every_counter_moves(server: Server) -> None:
    """All that the process counts, from one small story."""
    cluster = Cluster()
    good = cluster.received("1")
    server.tell(cluster.sent("1"), good, good)
    server.tell(cluster.sent("2"), cluster.received("2", components=DAMAGED))
    server.tell(cluster.prefill.report(drops={"queue_full": 3}))
    server.tell(cluster.prefill.report(drops={"queue_full": 5}))
    bad = cluster.prefill.look("3", Stage.send, at=9e10)
    assert server.post(cluster.prefill.report(bad)).status_code == 422
    expected = {
        ("pd_tracer_rooms_settled_total", (*PAIR.items(), ("verdict", "match"))): 1,
        ("pd_tracer_rooms_settled_total", (*PAIR.items(), ("verdict", "mismatch"))): 1,
        (
            "pd_tracer_components_settled_total",
            (*PAIR.items(), ("component", "kv"), ("verdict", "match")),
        ): 2,
        (
            "pd_tracer_components_settled_total",
            (*PAIR.items(), ("component", "index_k"), ("verdict", "mismatch")),
        ): 1,
        ("pd_tracer_mismatch_causes_total", (*PAIR.items(), ("cause", "unexplained"))): 1,
        ("pd_tracer_matches_by_coverage_total", (*PAIR.items(), ("coverage", "full"))): 1,
        ("pd_tracer_join_delay_seconds_count", ()): 2,
        ("pd_tracer_reports_total", (("kind", "observation"), ("outcome", "accepted"))): 4,
        ("pd_tracer_reports_total", (("kind", "observation"), ("outcome", "duplicate"))): 1,
        ("pd_tracer_batches_total", ()): 7,
        ("pd_tracer_refusals_total", (("reason", "record"),)): 1,
        (
            "pd_tracer_worker_drops_total",
            (("deployment", "llama"), ("worker", "p0"), ("reason", "queue_full")),
        ): 5,
        ("pd_tracer_queue_batches", ()): 0,
    }
    found = {key: server.metric(key[0], **dict(key[1])) for key in expected}
    assert found == expected


@pytest.mark.parametrize("kept", [True, False], ids=["same process", "after a restart"])
def test_drops_of_a_new_boot_start_again(settings: Settings, kept: bool) -> None:
    """And a late report of the earlier boot changes nothing."""
    old, new = speaker("prefill", "p0"), speaker("prefill", "p0", boot="p0-2")
    labels = {"deployment": "llama", "worker": "p0", "reason": "queue_full"}
    with serve(settings) as server:
        server.tell(old.report(drops={"queue_full": 7}))
        if kept:
            server.tell(new.report(drops={"queue_full": 2}), old.report(drops={"queue_full": 8}))
            assert server.metric("pd_tracer_worker_drops_total", **labels) == 9
            assert server.sql("SELECT boot, drops FROM workers") == [("p0-2", '{"queue_full":2}')]
    if not kept:
        with serve(settings) as server:
            server.tell(old.report(drops={"queue_full": 8}), new.report(drops={"queue_full": 2}))
            assert server.metric("pd_tracer_worker_drops_total", **labels) == 3
