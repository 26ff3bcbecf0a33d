"""The writer when things go wrong: a poisonous batch, a database that is away, a full queue, a stop."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import psycopg
import pytest
from sqlalchemy import text
from sqlalchemy.engine import make_url
from support.reports import Cluster, speaker
from support.serving import ANSWERS, Server, serve

from pd_tracer_hooks import wire
from pd_tracer_hooks.wire import Report, Stage
from tracer.settings import Settings
from tracer.store.batch import Batch, make_batch
from tracer.store.failures import Failure, Refused, Unavailable, classify
from tracer.store.writer import Answer


def batch_of(report: Report) -> Batch:
    return make_batch(
        report, report.observations, report.events, report.manifests, received=time.time(), size=1
    )


def submit_together(server: Server, *batches: Batch) -> list[Answer]:
    """Queue batches so that one transaction takes them all."""
    writer = server.collector.writer
    with writer._ready:
        return [writer.submit(batch) for batch in batches]


@contextmanager
def writes_blocked(server: Server) -> Iterator[None]:
    """Somebody else holds what the writer needs, until the block ends."""
    database = server.collector.database
    with database.write.connect() as connection, connection.begin() as transaction:
        if not database.is_sqlite:
            connection.execute(text("LOCK TABLE records IN EXCLUSIVE MODE"))
        yield
        transaction.rollback()


def test_the_answer_comes_after_the_commit(server: Server) -> None:
    with ThreadPoolExecutor(1) as pool:
        with writes_blocked(server):
            posted = pool.submit(server.post, Cluster().sent("1"))
            with pytest.raises(TimeoutError):
                posted.result(0.3)
            assert server.verdict("1") is None
        assert posted.result(20).status_code == 200
    assert server.verdict("1") == "pending"


def test_batches_that_queue_meanwhile_share_one_transaction(server: Server) -> None:
    cluster = Cluster()
    server.tell(cluster.prefill.report())
    before = server.metric("pd_tracer_flush_seconds_count")
    with writes_blocked(server):
        answers = [server.collector.writer.submit(batch_of(cluster.sent(str(n)))) for n in range(50)]
    assert sum(answer.result(20).accepted for answer in answers) == 50
    # The first may have been taken alone before the others came.
    assert server.metric("pd_tracer_flush_seconds_count") <= before + 2


def test_a_poisonous_batch_costs_no_neighbour(server: Server) -> None:
    """NUL passes no validation and no database; here it comes past the validation."""
    cluster = Cluster()
    good = [batch_of(cluster.sent(str(n))) for n in range(4)]
    poison = batch_of(cluster.sent("\x00"))
    answers = submit_together(server, *good[:2], poison, *good[2:])
    with pytest.raises(Refused):
        answers[2].result(20)
    assert [answer.result(20).accepted for answer in (*answers[:2], *answers[3:])] == [1] * 4
    assert server.sql("SELECT count(*) FROM rooms") == [(4,)]
    assert server.collector.writer.alive


def test_a_room_that_cannot_be_judged_keeps_its_records(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    from tracer.store import judging

    judge = judging.judge

    def broken(entries: Any, *rest: Any) -> Any:
        if entries[0].record.room == "bad":
            raise ZeroDivisionError("for the test")
        return judge(entries, *rest)

    monkeypatch.setattr(judging, "judge", broken)
    cluster = Cluster()
    server.tell(cluster.sent("bad"), cluster.sent("good"), cluster.received("bad"), cluster.received("good"))
    assert (server.verdict("bad"), server.verdict("good")) == ("pending", "match")
    assert server.metric("pd_tracer_join_faults_total") == 2
    monkeypatch.setattr(judging, "judge", judge)
    server.collector.writer.recheck([("llama", "bad")]).result(20)
    assert server.verdict("bad") == "match"


def test_schema_gone_and_back(server: Server) -> None:
    cluster = Cluster()
    server.tell(cluster.sent("1"))
    with server.collector.database.write.begin() as connection:
        connection.execute(text("ALTER TABLE rooms RENAME TO elsewhere"))
    response = server.post(cluster.received("1"))
    assert response.status_code == 503
    assert int(response.headers["Retry-After"]) >= 1
    assert "run `pd-tracer migrate`" in response.text
    with server.collector.database.write.begin() as connection:
        connection.execute(text("ALTER TABLE elsewhere RENAME TO rooms"))
    server.tell(cluster.received("1"))
    assert server.verdict("1") == "match"


def test_postgresql_away_and_back(postgres_url: str, postgres_server: str) -> None:
    """The database throws everybody out and lets nobody in; then it comes back."""
    admin_url = make_url(postgres_server).set(drivername="postgresql").render_as_string(hide_password=False)
    name = make_url(postgres_url).database
    cluster = Cluster()
    settings = Settings(database_url=postgres_url, auto_migrate=True, port=0)
    with serve(settings) as server, psycopg.connect(admin_url, autocommit=True) as admin:
        server.tell(cluster.sent("1"))
        admin.execute(f'ALTER DATABASE "{name}" ALLOW_CONNECTIONS false')
        admin.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s", [name])
        lost = cluster.received("1")
        response = server.post(lost)
        assert response.status_code == 503
        assert server.http.get("/readyz").status_code == 503
        assert server.http.get("/healthz").status_code == 200
        admin.execute(f'ALTER DATABASE "{name}" ALLOW_CONNECTIONS true')
        server.tell(lost)
        assert server.verdict("1") == "match"
        assert server.http.get("/readyz").status_code == 200


def test_starts_without_its_database(postgres_url: str, postgres_server: str) -> None:
    """Reports are answered 503 until `pd-tracer migrate` has run; then without a restart they are taken."""
    from tracer.store import migrate

    with serve(Settings(database_url=postgres_url, port=0)) as server:
        report = Cluster().sent("1")
        assert server.post(report).status_code == 503
        ready = server.http.get("/readyz")
        assert (ready.status_code, "pd-tracer migrate" in ready.text) == (503, True)
        migrate.upgrade_url(postgres_url)
        server.tell(report)
        assert server.http.get("/readyz").status_code == 200


@pytest.mark.parametrize("limit", [{"queue_batches": 1}, {"queue_bytes": 1 << 20}])
def test_a_full_queue_says_so(settings: Settings, limit: dict[str, int]) -> None:
    cluster = Cluster()
    with serve(settings.model_copy(update=limit)) as server:
        writer = server.collector.writer
        large = dataclasses.replace(batch_of(cluster.sent("0")), size=1 << 20)
        with writer._ready:  # the writer cannot take it meanwhile
            kept = writer.submit(large)
            with pytest.raises(Unavailable, match="queue is full"):
                writer.submit(batch_of(cluster.sent("1")))
        assert kept.result(20).accepted == 1
        server.tell(cluster.sent("1"))


def test_a_full_queue_is_answered_503(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server.collector.writer, "_queue_batches", 0)
    response = server.post(Cluster().sent("1"))
    assert (response.status_code, response.headers["Retry-After"]) == (503, "1")
    problem = wire.decoder(wire.Problem).decode(response.content)
    assert "queue is full" in problem.error
    assert server.metric("pd_tracer_refusals_total", reason="unavailable") == 1


def test_a_stop_writes_what_is_queued(settings: Settings) -> None:
    cluster = Cluster()
    with serve(settings) as server:
        answers = submit_together(server, *(batch_of(cluster.sent(str(n))) for n in range(30)))
    assert all(answer.result(0).accepted == 1 for answer in answers)
    with pytest.raises(Unavailable):
        server.collector.writer.submit(batch_of(cluster.sent("late")))
    with serve(settings) as server:
        assert server.sql("SELECT count(*) FROM rooms") == [(30,)]


def test_whoever_went_away_costs_nothing(server: Server) -> None:
    cluster = Cluster()
    writer = server.collector.writer
    with writer._ready:
        gone, stayed = (writer.submit(batch_of(cluster.sent(room))) for room in ("gone", "stayed"))
        assert gone.cancel()
    assert stayed.result(20).accepted == 1
    assert server.verdict("gone") is None


def test_more_rooms_than_the_memory_holds(server: Server) -> None:
    """Rooms that were forgotten are read again, and are the same."""
    cluster = Cluster()
    rooms = [str(n) for n in range(40)]
    server.tell(cluster.prefill.report(*(cluster.prefill.look(room, Stage.send) for room in rooms)))
    flusher = server.collector.writer._flusher
    assert flusher is not None
    flusher._cache._limit = 1
    [answer] = server.tell(
        cluster.decode.report(*(cluster.decode.look(room, Stage.receive) for room in rooms))
    )
    assert answer.accepted == 40
    assert len(flusher._cache) == 0
    third = cluster.decode.look("7", Stage.recheck)
    server.tell(cluster.decode.report(third), cluster.decode.report(third))
    assert server.sql("SELECT verdict, count(*) FROM rooms GROUP BY verdict") == [("match", 40)]
    assert server.sql("SELECT count(*) FROM records") == [(81,)]


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (psycopg.errors.DeadlockDetected(), Failure.retry),
        (psycopg.errors.SerializationFailure(), Failure.retry),
        (psycopg.errors.LockNotAvailable(), Failure.retry),
        (psycopg.errors.AdminShutdown(), Failure.away),
        (psycopg.OperationalError(), Failure.away),
        (psycopg.errors.DiskFull(), Failure.away),
        (psycopg.errors.UndefinedTable(), Failure.away),
        (psycopg.DataError(), Failure.data),
        (psycopg.errors.UniqueViolation(), Failure.data),
        (KeyError(), Failure.data),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Exception) else value.value,
)
def test_failures(error: Exception, expected: Failure) -> None:
    assert classify(error) is expected


def test_a_deadlock_is_tried_again(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    server.tell(speaker("prefill", "p0").report())
    flusher = server.collector.writer._flusher
    assert flusher is not None
    failures: list[Exception] = [psycopg.errors.DeadlockDetected(), psycopg.errors.SerializationFailure()]
    add: Callable[..., Any] = flusher._workers.write

    def write(*args: Any) -> Any:
        if failures:
            raise failures.pop()
        return add(*args)

    monkeypatch.setattr(flusher._workers, "write", write)
    response = server.post(Cluster().sent("1"))
    assert ANSWERS[wire.MSGPACK].decode(response.content).accepted == 1
    assert server.sql("SELECT count(*) FROM records") == [(1,)]
