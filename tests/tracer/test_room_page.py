"""The page of one room: its neighbours, its map, and page digests in its timeline."""

from __future__ import annotations

import re
from typing import Any

import msgspec
import pytest
from sqlalchemy.dialects import sqlite
from support.reports import DAMAGED, KEY, PARTS, Cluster, speaker
from support.serving import Server
from typer.testing import CliRunner

from pd_tracer_hooks.u64s import U64s
from pd_tracer_hooks.wire import Detail, EventKind, Side, Stage
from tracer.api.models import Room, component
from tracer.api.models import room as models_of_a_room
from tracer.api.views import room_detail
from tracer.cli.evidence import words
from tracer.cli.main import app
from tracer.cli.room_page import show_room
from tracer.join.model import (
    Attempt,
    Cause,
    Comparison,
    ComponentVerdict,
    Donor,
    Evidence,
    How,
    RoomVerdict,
    Shape,
    SideExtent,
    Timing,
    TransferVerdict,
    Verdict,
    Where,
)
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
    said = said or RoomVerdict(verdict=Verdict.match, settled=True)
    return RoomRow(
        day=20_000,
        deployment="llama",
        room="r",
        verdict=said.verdict.value,
        cause=said.cause.value if said.cause else "",
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
        said=said,
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


def printed(found: Room, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> str:
    monkeypatch.setenv("COLUMNS", "160")
    show_room(found)
    return capsys.readouterr().out


def test_the_command_draws_the_map_and_the_neighbours(pairs: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "160")
    run = CliRunner().invoke(app, ["room", "r4", "--url", pairs.url])
    assert run.exit_code == 0, run.output
    assert re.search(
        r"index_k of transfer [0-9a-f]{16}: 8 pages x 2 layers; (from sums|cell by cell)", run.output
    )
    assert "layer 0  ········\n" in run.output
    assert re.search("layer 2  ·[▒█]······\n", run.output)
    assert "█ bad  ▒ suspected  ? unknown  · good\n" in run.output
    near = re.findall(r"[\d.]+ s (before|after) +(r\d) +match +index_k and kv match", run.output)
    assert near == [("before", f"r{n}") for n in (1, 2, 3)] + [("after", f"r{n}") for n in (5, 6, 7)]
    assert "suspected" not in CliRunner().invoke(app, ["room", "r3", "--url", pairs.url]).output


def test_colours_are_for_terminals_that_want_them(
    pairs: Server, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    found = Room.model_validate(page(pairs, "r4"))
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.delenv("NO_COLOR", raising=False)
    assert re.search("\x1b\\[(1;31m█|33m▒)", printed(found, monkeypatch, capsys))
    monkeypatch.setenv("NO_COLOR", "1")
    assert not re.search("\x1b\\[[0-9;]*3[1-7]", printed(found, monkeypatch, capsys))


EVERYTHING = ComponentVerdict(
    component="kv",
    verdict=Verdict.mismatch,
    cause=Cause.late,
    where=Where(regions=["tail", "body"], layers=[3], page_runs=[(6, 2)]),
    layers=[3, 4],
    prefill=SideExtent(pages=8, complete=True),
    shape=Shape.tail_run,
    chunk_edges=[6],
    boundary=[(6, 1)],
    evidence=Evidence(
        unit="cell",
        units=2,
        causes={"late": 2},
        comparisons=[Comparison(look="recheck 1", against="send", equal=2)],
        missing=["no `allocate` observation: stale cannot be told from corrupt"],
    ),
    timing=Timing(look="recheck 1", after_receive_s=0.0021, after_signal_s=0.0018),
    donors=[
        Donor(room="4712", how=How.digests, page_runs=[(6, 2)], layers=[3]),
        Donor(room="4713", how=How.held, page_runs=[(7, 1)]),
    ],
    also_equal=["admit"],
)


def told(component: ComponentVerdict, **other: Any) -> RoomVerdict:
    transfer = TransferVerdict(
        key=KEY, verdict=component.verdict, cause=component.cause, components=[component]
    )
    attempt = Attempt(number=1, verdict=component.verdict, cause=component.cause, transfers=[transfer])
    return RoomVerdict(
        verdict=component.verdict,
        cause=component.cause,
        settled=True,
        attempts=[attempt],
        components=[component],
        **other,
    )


def test_evidence_in_words(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    found = room_detail(row(told(EVERYTHING)), Timeline([], [], truncated=False))
    text = printed(found, monkeypatch, capsys)
    assert "mismatch: late" in text
    for line in (
        "kv: page 6 right only in part",
        "kv: 2 cells differ: 2 late",
        "kv: recheck 1 against send: 2 equal",
        "kv: first seen right at recheck 1, 2.1 ms after receive, 1.8 ms after completion was signalled; "
        "last seen wrong at receive",
        "kv: room 4712: its bytes were found in pages 6-7 of layer 3",
        "kv: room 4713 held what is page 7 here; whether these are its bytes is not known",
        "kv: admit equal too",
        "kv: missing: no `allocate` observation: stale cannot be told from corrupt",
    ):
        assert f"\n{line}\n" in text


def test_every_field_of_a_verdict_is_shown_by_the_api() -> None:
    """What the join says of a component, a transfer and a room goes through as it is."""
    said = told(EVERYTHING, exonerated=True, not_covered=["the metadata row"])
    found = room_detail(row(said), Timeline([], [], truncated=False)).model_dump(mode="json")
    assert found["components"] == found["attempts"][0]["transfers"][0]["components"]
    assert_within(msgspec.to_builtins(said), found)


def assert_within(expected: Any, found: Any) -> None:
    if isinstance(expected, dict):
        for key, value in expected.items():
            assert key in found, key
            assert_within(value, found[key])
    elif isinstance(expected, list | tuple):
        assert len(expected) == len(found)
        for one, other in zip(expected, found, strict=True):
            assert_within(one, other)
    else:
        assert expected == found


STRUCTS = [
    (Where, component.Where),
    (ComponentVerdict, component.Component),
    (Evidence, component.Evidence),
    (Comparison, component.Comparison),
    (Timing, component.Timing),
    (Donor, component.Donor),
    (TransferVerdict, models_of_a_room.Transfer),
    (Attempt, models_of_a_room.Attempt),
    (RoomVerdict, Room),
]


@pytest.mark.parametrize(("struct", "model"), STRUCTS)
def test_models_have_the_fields_of_the_join(struct: Any, model: Any) -> None:
    assert set(struct.__struct_fields__) <= set(model.model_fields)


def test_an_exonerated_room_says_what_that_does_not_cover(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    equal = ComponentVerdict(component="kv", verdict=Verdict.match)
    said = told(equal, exonerated=True, not_covered=["kv: pages that decode already held"])
    found = room_detail(row(said), Timeline([], [], truncated=False))
    text = printed(found, monkeypatch, capsys)
    assert "the transfer is exonerated: all that both pools have was compared in full" in text
    assert "\nnot covered: kv: pages that decode already held\n" in text


def test_a_sentence_that_holds_for_several_components_is_said_once() -> None:
    other = msgspec.structs.replace(EVERYTHING, component="index_k", cause=Cause.unexplained)
    said = told(EVERYTHING)
    said = msgspec.structs.replace(said, components=[EVERYTHING, other])
    found = room_detail(row(said), Timeline([], [], truncated=False))
    lines = words(found.components)
    assert "kv and index_k: admit equal too" in lines
    shape = "a run up to its end differs, with an edge where one of prefill's chunks has one: page 6"
    assert f"index_k: {shape}" in lines
    assert not any(line.startswith("kv: a run") for line in lines), "the reason says it"
    assert len(set(lines)) == len(lines)
