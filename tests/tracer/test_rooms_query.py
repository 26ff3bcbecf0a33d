"""That lists read an index, by what SQLite says it will do; and that a slow look ends by itself."""

from __future__ import annotations

import time

import pytest
from sqlalchemy import insert, text
from sqlalchemy.dialects import sqlite

from tracer.join.model import Cause, RoomVerdict, Verdict
from tracer.store import migrate
from tracer.store.codec import encode_verdict
from tracer.store.cursor import Cursor
from tracer.store.database import Database, open_database
from tracer.store.reading import TooSlowError, reading
from tracer.store.rooms_query import Reporters, RoomFilter, list_rooms, rooms_statement
from tracer.store.schema import rooms
from tracer.store.summary_query import Pending, Tally, read_pending

AFTER = Cursor(1000.0, "llama", "5")
BY = Reporters([("llama", "d0")], 10.0, 20.0)
PLANS = [
    (RoomFilter(), "ix_rooms_recent"),
    (RoomFilter(deployment="llama"), "ix_rooms_recent"),
    (RoomFilter(since=10.0, until=20.0), "ix_rooms_recent"),
    (RoomFilter(verdicts=[Verdict.match]), "ix_rooms_recent"),
    (RoomFilter(request="r"), "ix_rooms_request_prefill"),
    (RoomFilter(request="r"), "ix_rooms_request_decode"),
    (RoomFilter(trace="t"), "ix_rooms_trace"),
    (RoomFilter(verdicts=[Verdict.mismatch]), "ix_rooms_bad"),
    (RoomFilter(verdicts=[Verdict.mismatch, Verdict.failed], since=10.0), "ix_rooms_bad"),
    (RoomFilter(cause=Cause.unexplained), "ix_rooms_bad"),
    (RoomFilter(verdicts=[Verdict.pending]), "ix_rooms_pending"),
]


@pytest.fixture
def sqlite_database(sqlite_url: str) -> Database:
    database = open_database(sqlite_url)
    migrate.upgrade(database)
    return database


def plan_of(database: Database, statement: object) -> list[str]:
    compiled = statement.compile(dialect=sqlite.dialect(), compile_kwargs={"literal_binds": True})  # type: ignore[attr-defined]
    with database.read.connect() as connection:
        rows = connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {compiled}").all()
    return [row.detail for row in rows]


@pytest.mark.parametrize("after", [None, AFTER], ids=["first page", "later page"])
def test_lists_use_their_index(sqlite_database: Database, after: Cursor | None) -> None:
    for wanted, index in PLANS:
        plan = plan_of(sqlite_database, rooms_statement(wanted, limit=100, after=after))
        assert any(f"USING INDEX {index}" in step for step in plan), (wanted, plan)
        assert not any(step == "SCAN rooms" for step in plan), (wanted, plan)


def test_lists_by_worker_look_records_up_by_their_key(sqlite_database: Database) -> None:
    plan = plan_of(sqlite_database, rooms_statement(RoomFilter(), [BY], limit=100))
    assert any("SEARCH rooms USING INDEX ix_rooms_recent (last_seen>?)" in step for step in plan), plan
    assert any("SEARCH records" in step and "(day=? AND deployment=? AND room=?)" in step for step in plan)


def room(number: int, **other: object) -> dict[str, object]:
    return {
        "day": 1,
        "deployment": "llama",
        "room": str(number),
        "verdict": "match",
        "first_seen": float(number),
        "last_seen": float(number),
        "body": encode_verdict(RoomVerdict(verdict=Verdict.match, settled=True)),
        **other,
    }


def test_rooms_seen_at_the_same_time_are_paged_too(database: Database) -> None:
    made = [room(number, last_seen=float(number // 7)) for number in range(30)]
    with database.write.begin() as connection:
        connection.execute(insert(rooms), made)
    seen: list[str] = []
    after = None
    with reading(database) as connection:
        while True:
            page = list_rooms(connection, RoomFilter(), limit=4, after=after)
            seen += [row.room for row in page.rooms]
            after = page.next
            if after is None:
                break
    assert sorted(seen, key=int) == [str(number) for number in range(30)]
    assert [int(name) // 7 for name in seen] == sorted((int(name) // 7 for name in seen), reverse=True)


def test_pending_rooms_by_deployment(database: Database) -> None:
    made = [room(number, verdict="pending" if number % 2 else "match") for number in range(10)]
    made.append(room(3, deployment="qwen", verdict="pending", first_seen=2.5))
    with database.write.begin() as connection:
        connection.execute(insert(rooms), made)
    with reading(database) as connection:
        assert read_pending(connection) == {"llama": Pending(5, 1.0), "qwen": Pending(1, 2.5)}
        assert read_pending(connection, "qwen") == {"qwen": Pending(1, 2.5)}
        assert read_pending(connection, "none") == {}


SLOW = {
    "sqlite": "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT max(i) FROM n",
    "postgresql": "SELECT pg_sleep(60)",
}


def test_a_look_that_takes_too_long_ends(database: Database) -> None:
    slow = text(SLOW[database.url.get_backend_name()])
    begun = time.monotonic()
    with pytest.raises(TooSlowError, match=r"longer than 0\.2 s"), reading(database, 0.2) as connection:
        connection.execute(slow)
    assert time.monotonic() - begun < 10
    # The connection goes back to its pool without the limit.
    with reading(database, 30) as connection:
        assert connection.execute(text("SELECT 1")).scalar() == 1


def test_readers_cannot_write(database: Database) -> None:
    from sqlalchemy.exc import DBAPIError

    with pytest.raises(DBAPIError), reading(database) as connection:
        connection.execute(insert(rooms), [room(1)])


def test_a_reader_sees_one_state(database: Database) -> None:
    count = text("SELECT count(*) FROM rooms")
    with reading(database) as connection:
        assert connection.execute(count).scalar() == 0
        with database.write.begin() as writer:
            writer.execute(insert(rooms), [room(1)])
        assert connection.execute(count).scalar() == 0
    with reading(database) as connection:
        assert connection.execute(count).scalar() == 1


V = Verdict
TALLIES = [
    ([], {}, None),
    ([(V.match, 3), (V.mismatch, 1)], {V.match: 3, V.mismatch: 1}, 0.75),
    ([(V.match, 3), (V.match, 2)], {V.match: 5}, 1.0),
    ([(V.missing_decode, 4)], {V.missing_decode: 4}, None),
    # Settled before the window as a match, revised within it.
    ([(V.match, -1), (V.mismatch, 1)], {V.mismatch: 1}, 0.0),
    ([(V.match, -1), (V.match, 1)], {}, None),
]


@pytest.mark.parametrize(("given", "counts", "ratio"), TALLIES)
def test_tallies(given: list[tuple[Verdict, int]], counts: dict[Verdict, int], ratio: float | None) -> None:
    tally = Tally.of(given)
    assert tally.counts == counts
    assert tally.match_ratio == ratio
    assert tally.mismatch_ratio == (None if ratio is None else 1 - ratio)
