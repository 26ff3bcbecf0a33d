"""The page of one room: its neighbours, its map, and page digests in its timeline."""

from __future__ import annotations

from typing import Any

import pytest
from sqlalchemy.dialects import sqlite
from support.reports import DAMAGED, KEY, PARTS, Cluster, speaker
from support.serving import Server

from pd_tracer_hooks.u64s import U64s
from pd_tracer_hooks.wire import Detail, EventKind, Side, Stage
from tracer.api.views import room_detail
from tracer.join.model import RoomVerdict, Verdict
from tracer.store import migrate, neighbours_query
from tracer.store.database import Database, open_database
from tracer.store.neighbours_query import neighbours_statement
from tracer.store.room_query import RoomRecord, Timeline
from tracer.store.rooms_query import RoomRow


def page(server: Server, room: str) -> Any:
    answer = server.http.get(f"/rooms/{room}")
    assert answer.status_code == 200, answer.text
    return answer.json()


@pytest.fixture
def pairs(server: Server) -> Server:
    """Nine rooms of one pair, ``r4`` damaged, each followed by one of another pair with the same prefill."""
    cluster, other = Cluster(), Cluster(decode=speaker("decode", "d1"))
    for number in range(9):
        parts = DAMAGED if number == 4 else PARTS
        server.tell(cluster.sent(f"r{number}"), cluster.received(f"r{number}", components=parts))
        server.tell(other.sent(f"o{number}"), other.received(f"o{number}"))
    return server


@pytest.mark.parametrize(
    ("room", "names"),
    [
        ("r4", ["r1", "r2", "r3", "r5", "r6", "r7"]),
        ("r0", ["r1", "r2", "r3"]),
        ("r8", ["r5", "r6", "r7"]),
        ("o1", ["o0", "o2", "o3", "o4"]),
    ],
)
def test_neighbours_are_of_the_same_pair(pairs: Server, room: str, names: list[str]) -> None:
    found = page(pairs, room)
    near = found["neighbours"]
    assert [each["room"] for each in near] == names
    offsets = [each["offset_s"] for each in near]
    assert offsets == sorted(offsets)
    for each in near:
        theirs = page(pairs, each["room"])
        assert {key: each[key] for key in ("verdict", "cause", "summary", "last_seen")} == {
            key: theirs[key] for key in ("verdict", "cause", "summary", "last_seen")
        }
        assert each["offset_s"] == pytest.approx(theirs["last_seen"] - found["last_seen"])
        assert (each["offset_s"] < 0) == (int(each["room"][1:]) < int(room[1:]))


def test_neighbours_that_are_too_far_are_not_looked_for(
    pairs: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(neighbours_query, "MAX_SEARCHED", 2)
    assert [each["room"] for each in page(pairs, "r4")["neighbours"]] == ["r3", "r5"]


def test_a_room_of_no_known_pair_has_no_neighbours(server: Server) -> None:
    prefill = speaker("prefill", "p0")
    for room in ("a", "b"):
        server.tell(prefill.report(prefill.look(room, Stage.send)))
    assert page(server, "a")["neighbours"] == []


def test_neighbours_read_a_stretch_of_an_index(tmp_path: Any) -> None:
    database: Database = open_database(f"sqlite:///{tmp_path}/plan.db")
    migrate.upgrade(database)
    with database.read.connect() as connection:
        for after in (False, True):
            statement = neighbours_statement(row(), after=after, count=3)
            text = statement.compile(dialect=sqlite.dialect(), compile_kwargs={"literal_binds": True})
            plan = [step[3] for step in connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {text}")]
            assert any("SEARCH rooms USING INDEX ix_rooms_recent" in step for step in plan), plan
            assert not any("TEMP B-TREE" in step for step in plan[:2]), plan
    database.dispose()


def row(said: RoomVerdict | None = None) -> RoomRow:
    """A row of ``rooms`` as the store reads it."""
    return RoomRow(
        day=20_000,
        deployment="llama",
        room="r",
        verdict="match",
        cause="",
        coverage="full",
        worst_components=(),
        first_seen=1.0,
        last_seen=2.0,
        settled_at=2.0,
        deadline=None,
        prefill_server="P0",
        decode_server="D0",
        request_prefill="",
        request_decode="",
        trace="",
        run="",
        attempts=1,
        revisions=0,
        said=said or RoomVerdict(verdict=Verdict.match, settled=True),
    )


def test_the_map_of_a_bad_room(pairs: Server) -> None:
    [found] = page(pairs, "r4")["map"]
    assert (found["component"], found["key"], found["pages"], found["grain"]) == ("index_k", KEY, 8, 1)
    state = "bad" if found["exact"] else "suspected"
    assert found["rows"] == [
        {"layers": [0], "runs": [[0, 8, "good"]]},
        {"layers": [2], "runs": [[0, 1, "good"], [1, 1, state], [2, 6, "good"]]},
    ]
    assert page(pairs, "r3")["map"] == []


@pytest.mark.parametrize("gone", [False, True])
def test_page_digests_are_in_the_timeline_without_their_bytes(gone: bool) -> None:
    detail = Detail(
        room="r",
        keys=[KEY],
        stage=Stage.receive,
        seq=9,
        at=1.5,
        component="kv",
        layers=[] if gone else [0, 1],
        runs=[] if gone else [(0, 3)],
        digests=U64s() if gone else U64s.of(range(6)),
        gone=gone,
        reason="evicted" if gone else "",
    )
    stored = RoomRecord("decode", "detail:receive", 0, "d0", "d0-1", "D0", 2.0, detail)
    [entry] = room_detail(row(), Timeline([stored], [], truncated=False)).timeline
    assert (entry.kind, entry.stage, entry.side, entry.component) == ("detail", "receive", Side.decode, "kv")
    assert entry.reason == detail.reason
    assert entry.detail is not None
    assert (entry.detail.digests, entry.detail.gone) == (0 if gone else 6, gone)
    assert (entry.detail.layers, entry.detail.runs) == (detail.layers, detail.runs)
    assert "0000000000000005" not in entry.model_dump_json()


def test_observations_and_events_have_no_detail(server: Server) -> None:
    cluster = Cluster()
    server.tell(cluster.decode.report(cluster.decode.event("r", EventKind.opened)), cluster.received("r"))
    assert [entry["detail"] for entry in page(server, "r")["timeline"]] == [None, None]
