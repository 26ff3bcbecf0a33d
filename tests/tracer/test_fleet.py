"""Of how many rooms the transfer is exonerated: by table, over HTTP and on the command line."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from support.reports import DAMAGED, Cluster, speaker
from support.rooms import INDEX_K, KV
from support.serving import Server
from typer.testing import CliRunner

from pd_tracer_hooks.wire import Coverage, EventKind
from tracer.cli.main import app
from tracer.fleet import Standing, count_standings, standing, statement
from tracer.join.model import Cause, ComponentVerdict, RoomVerdict, Verdict
from tracer.store import fleet_query
from tracer.store.reading import reading

V = Verdict


def said(verdict: Verdict, *coverages: Coverage, **other: Any) -> RoomVerdict:
    parts = [
        ComponentVerdict(component=f"c{n}", verdict=V.match, coverage=c) for n, c in enumerate(coverages)
    ]
    return RoomVerdict(verdict=verdict, settled=True, components=parts, **other)


FULL, ENDS = Coverage.full, Coverage.ends
CASES = [
    (said(V.match, FULL, FULL, exonerated=True), Standing.exonerated),
    (said(V.match, FULL, FULL), Standing.not_all_traced),
    (said(V.match, FULL, ENDS), Standing.ends_only),
    (said(V.mismatch, FULL, cause=Cause.unexplained), Standing.unexplained),
    (said(V.mismatch), Standing.unexplained),
    (said(V.mismatch, cause=Cause.late), Standing.explained),
    *((said(verdict), Standing.not_compared) for verdict in V if verdict not in (V.match, V.mismatch)),
]


@pytest.mark.parametrize(("verdict", "expected"), CASES)
def test_standings(verdict: RoomVerdict, expected: Standing) -> None:
    assert standing(verdict) is expected


@pytest.mark.parametrize(
    ("verdicts", "expected"),
    [
        ([], "no room was compared"),
        ([said(V.aborted)] * 2, "no room was compared; 2 rooms could not be"),
        ([said(V.match, exonerated=True)], "the transfer is exonerated in 1 of 1 room compared"),
        (
            [case for case, _ in CASES[:6]],
            "the transfer is exonerated in 1 of 6 rooms compared; 1 matched at both ends only; "
            "1 matched as far as they were traced, which is not all; 1 with damage whose cause is told; "
            "2 with damage left unexplained",
        ),
        (
            [said(V.match, exonerated=True), said(V.failed)],
            "the transfer is exonerated in 1 of 1 room compared; 1 more could not be compared",
        ),
    ],
)
def test_the_sentence(verdicts: list[RoomVerdict], expected: str) -> None:
    assert statement(count_standings(verdicts)) == expected


def test_every_standing_is_in_the_sentence() -> None:
    words = statement(Counter(dict.fromkeys(Standing, 7)))
    assert words.count("7") == len(Standing)


@pytest.fixture
def fleet(server: Server) -> Server:
    """8 intact rooms, 2 damaged, 1 aborted, 1 pending; another deployment has one that is damaged."""
    cluster = Cluster()
    manifest = (KV.in_manifest(), INDEX_K.in_manifest())
    server.tell(
        cluster.prefill.report(cluster.prefill.manifest(*manifest)),
        cluster.decode.report(cluster.decode.manifest(*manifest)),
    )
    for number in range(8):
        server.tell(cluster.sent(f"good-{number}"), cluster.received(f"good-{number}"))
    for number in range(2):
        server.tell(cluster.sent(f"bad-{number}"), cluster.received(f"bad-{number}", components=DAMAGED))
    other = Cluster(speaker("prefill", "p1", deployment="qwen"), speaker("decode", "d1", deployment="qwen"))
    server.tell(
        cluster.prefill.report(cluster.prefill.event("gone", EventKind.aborted)),
        cluster.sent("waiting"),
        other.sent("theirs"),
        other.received("theirs", components=DAMAGED),
    )
    return server


def test_over_http(fleet: Server) -> None:
    found = fleet.http.get("/exonerated", params={"deployment": "llama"}).json()
    assert (found["exonerated"], found["ends_only"], found["not_all_traced"]) == (8, 0, 0)
    assert (found["unexplained"], found["read"]) == (2, 11)
    assert found["not_compared"] == {"aborted": 1}
    assert found["explained"] == {}
    assert [room["room"] for room in found["rooms"]] == ["bad-1", "bad-0"]
    assert found["rooms"][0] in fleet.http.get("/rooms", params={"verdict": "mismatch"}).json()["rooms"]
    assert found["sampled"] is False
    assert found["summary"].startswith("the transfer is exonerated in 8 of 10 rooms compared; 2 with damage")
    everywhere = fleet.http.get("/exonerated").json()
    assert everywhere["unexplained"] == 3
    one = fleet.http.get("/exonerated", params={"limit": 1}).json()
    assert (one["unexplained"], [room["room"] for room in one["rooms"]]) == (3, ["theirs"])


def test_a_window_of_many_rooms_is_sampled(fleet: Server) -> None:
    with reading(fleet.collector.database) as connection:
        found = fleet_query.read_fleet(connection, since=0.0, deployment="llama", limit=5)
        assert found.sampled
        assert found.standings.total() == 5
        assert fleet_query.read_fleet(connection, since=1e11).standings.total() == 0


@pytest.mark.parametrize(
    ("params", "field"),
    [({"window": "soon"}, "window"), ({"window": "0"}, "window"), ({"limit": "0"}, "limit")],
)
def test_bad_parameters_are_named(server: Server, params: dict[str, str], field: str) -> None:
    answer = server.http.get("/exonerated", params=params)
    assert answer.status_code == 422
    assert answer.json()["field"] == field


def test_an_empty_collector(server: Server) -> None:
    found = server.http.get("/exonerated").json()
    assert (found["summary"], found["rooms"]) == ("no room was compared", [])


def test_summary_ends_with_it(fleet: Server) -> None:
    run = CliRunner().invoke(app, ["summary", "-d", "llama", "--url", fleet.url], env={"COLUMNS": "200"})
    assert run.exit_code == 0, run.output
    assert " of 10 rooms compared; " in run.output
    assert "  unexplained: bad-1: index_k mismatch, layer 2, head, page 1, pair P0→D0\n" in run.output
