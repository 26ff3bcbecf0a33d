"""Collectors that share one PostgreSQL: whichever gets a record, each room is joined and counted once."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack

import pytest
from support.reports import DAMAGED, KEY, Cluster, speaker
from support.rooms import INDEX_K, KV
from support.serving import Server, serve

from pd_tracer_hooks.wire import EventKind, Stage
from tracer.settings import Settings

ROOMS = 120


@pytest.fixture
def replicas(postgres_url: str) -> Iterator[list[Server]]:
    with ExitStack() as stack:
        yield [
            stack.enter_context(
                serve(Settings(database_url=postgres_url, auto_migrate=True, port=0, replica=f"r{n}"))
            )
            for n in range(2)
        ]


def total(replicas: list[Server], name: str, **labels: str) -> float:
    return sum(server.metric(name, **labels) or 0 for server in replicas)


def test_sides_on_different_replicas_in_turn(replicas: list[Server]) -> None:
    """The first replica remembers the room, and must notice that the other has written it."""
    one, other = replicas
    cluster = Cluster()
    one.tell(cluster.sent("1"))
    other.tell(cluster.received("1"))
    assert one.verdict("1") == "match"
    bad = cluster.decode.look("1", Stage.receive, components=DAMAGED, look=1)
    one.tell(cluster.decode.report(bad))
    assert one.sql("SELECT count(*) FROM records") == [(3,)]
    assert one.sql("SELECT version FROM room_keys WHERE transfer_key = ''") == [(3,)]


def test_many_rooms_at_once_with_repetitions(replicas: list[Server]) -> None:
    """Both sides' batches go to both replicas at the same time, in overlapping slices."""
    cluster = Cluster()
    rooms = [f"room-{n}" for n in range(ROOMS)]
    sends = [cluster.prefill.look(room, Stage.send) for room in rooms]
    receives = [
        cluster.decode.look(room, Stage.receive, components=DAMAGED if n % 10 == 0 else None)
        if n % 10 == 0
        else cluster.decode.look(room, Stage.receive)
        for n, room in enumerate(rooms)
    ]
    posts = []
    for start in range(0, ROOMS, 20):
        for server in replicas:
            posts.append((server, cluster.prefill.report(*sends[start : start + 30])))
            posts.append((server, cluster.decode.report(*reversed(receives[start : start + 30]))))
    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda post: post[0].tell(post[1])[0], posts))

    assert sum(answer.accepted for answer in answers) == 2 * ROOMS
    assert sum(answer.conflicting for answer in answers) == 0
    found = dict(replicas[0].sql("SELECT verdict, count(*) FROM rooms GROUP BY verdict"))
    assert found == {"match": ROOMS * 9 // 10, "mismatch": ROOMS // 10}
    pair = {"deployment": "llama", "prefill": "P0", "decode": "D0"}
    for verdict, number in found.items():
        assert total(replicas, "pd_tracer_rooms_settled_total", **pair, verdict=verdict) == number
    rolled = replicas[0].sql("SELECT verdict, sum(count) FROM rollups WHERE component = '' GROUP BY verdict")
    assert {verdict: int(number) for verdict, number in rolled} == found


def test_a_manifest_and_an_alias_learnt_by_the_other(replicas: list[Server]) -> None:
    """Decode's room is judged by what prefill told the other replica: it holds index_k and never moves it."""
    one, other = replicas
    cluster = Cluster(prefill=speaker("prefill", "p0", aliases=["boot:1"]))
    one.tell(
        cluster.prefill.report(
            cluster.prefill.manifest(KV.in_manifest(), INDEX_K.in_manifest(moved=False)),
            cluster.prefill.look("1", Stage.send, components=[KV.part()]),
        )
    )
    other.tell(
        cluster.decode.report(
            cluster.decode.manifest(KV.in_manifest(), INDEX_K.in_manifest()),
            cluster.decode.event("1", EventKind.opened, keys=[KEY], peer="boot:1"),
            cluster.decode.event("2", EventKind.opened, keys=[KEY], peer="boot:1"),
        ),
        cluster.received("1", components=[KV.part()]),
    )
    assert other.verdict("1") == "missing_component"
    assert other.sql("SELECT prefill_server FROM rooms WHERE room = '2'") == [("P0",)]


def test_drops_are_counted_once(replicas: list[Server]) -> None:
    """They are cumulative in the worker, whoever is told."""
    worker = speaker("prefill", "p0")
    for server, count in zip([*replicas, *replicas], [3, 5, 5, 9], strict=True):
        server.tell(worker.report(drops={"queue_full": count}))
    labels = {"deployment": "llama", "worker": "p0", "reason": "queue_full"}
    assert total(replicas, "pd_tracer_worker_drops_total", **labels) == 9
