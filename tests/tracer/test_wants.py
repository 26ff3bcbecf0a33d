"""After a mismatch: workers are asked, their page digests arrive, and the verdict names each bad cell."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest
from support.reports import Cluster, speaker
from support.serving import Server, serve

from pd_tracer_hooks.agent import Agent
from pd_tracer_hooks.capture import ComponentLook, Look
from pd_tracer_hooks.digest.backend import Pool
from pd_tracer_hooks.digest.cpu import CpuBackend
from pd_tracer_hooks.identity import describe_worker
from pd_tracer_hooks.layout import PageLayout
from pd_tracer_hooks.settings import Settings as HookSettings
from pd_tracer_hooks.u64s import U64s
from pd_tracer_hooks.wire import Detail, EventKind, Side, Stage, Want
from tracer.settings import Settings

LAYOUT = PageLayout.plain(4, 16)
PAGES, LAYERS = 100, (0, 1, 2)
KEY = "0" * 15 + "1"


def memory(damage: tuple[int, int] | None = None) -> Pool:
    """kv of :data:`PAGES` pages, with one byte changed in (layer, page)."""
    buffers = {}
    for layer in LAYERS:
        data = bytearray((layer * 7 + at * 13) & 255 for at in range(PAGES * LAYOUT.page_bytes))
        if damage is not None and damage[0] == layer:
            data[damage[1] * LAYOUT.page_bytes + 5] ^= 1
        buffers[layer] = bytes(data)
    return Pool("kv", LAYOUT, buffers)


def agent_for(server: Server, side: Side, pool: Pool, **changes: object) -> Agent:
    settings = HookSettings(
        url=server.url,
        deployment="llama",
        server=side.value,
        coverage="full",
        flush_ms=5.0,
        heartbeat_s=0.1,
        **changes,  # type: ignore[arg-type]
    )
    agent = Agent(settings, describe_worker(settings, side=side), backend=CpuBackend(), model_layers=3)
    agent.manifest([pool])
    return agent


def look(pool: Pool, stage: Stage) -> Look:
    part = ComponentLook(pool=pool, pages=range(PAGES), total_pages=PAGES)
    return Look(room="r", keys=[KEY], stage=stage, components=[part])


def until(condition: Callable[[], bool], seconds: float = 10.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it did not come about"
        time.sleep(0.02)


def room(server: Server, name: str = "r") -> dict[str, object]:
    answer: dict[str, object] = server.http.get(f"/rooms/{name}", params={"deployment": "llama"}).json()
    return answer


def details(server: Server) -> int:
    return int(server.sql("SELECT count(*) FROM records WHERE stage LIKE 'detail:%'")[0][0])


def test_idle_workers_are_asked_and_the_bad_cell_is_named(server: Server) -> None:
    sent, arrived = memory(), memory(damage=(1, 41))
    prefill, decode = agent_for(server, Side.prefill, sent), agent_for(server, Side.decode, arrived)
    decode.event(EventKind.opened, "r", keys=[KEY])
    prefill.observe(look(sent, Stage.send))
    decode.observe(look(arrived, Stage.receive))
    # Neither traces anything more: what is wanted rides the answers to their heartbeats.
    until(lambda: details(server) == 2)
    until(lambda: room(server)["components"][0]["where"].get("layers") == [1])  # type: ignore[index]
    where = room(server)["components"][0]["where"]  # type: ignore[index]
    assert where["page_runs"] == [[41, 1]]
    assert server.sql("SELECT count(*) FROM wants WHERE kind = 'detail'")[0][0] == 0
    assert server.metric("pd_tracer_reports_total", kind="detail", outcome="accepted") == 2
    assert prefill.close(5)
    assert decode.close(5)


def wanted_by(server: Server, cluster: Cluster, side: str = "decode") -> list[Want]:
    (answer,) = server.tell(getattr(cluster, side).report())
    return answer.wanted


def mismatch(server: Server, cluster: Cluster, name: str = "r") -> None:
    from support.reports import DAMAGED

    server.tell(cluster.sent(name), cluster.received(name, components=DAMAGED))


def test_both_sides_are_asked_until_they_answer(server: Server) -> None:
    cluster = Cluster()
    assert wanted_by(server, cluster) == []
    mismatch(server, cluster)
    for side in ("prefill", "decode"):
        for _ in range(2):
            kinds = {(want.kind, want.room) for want in wanted_by(server, cluster, side)}
            assert kinds == {("detail", "r"), ("deep", "")}
    gone = Detail(
        room="r", stage=Stage.receive, seq=99, at=time.time(), component="*", gone=True, reason="evicted"
    )
    report = cluster.decode.report(details=[gone])
    (answer,) = server.tell(report)
    assert answer.accepted == 1
    assert [want.kind for want in wanted_by(server, cluster, "decode")] == ["deep"]
    assert "detail" in [want.kind for want in wanted_by(server, cluster, "prefill")]
    timeline = server.http.get("/rooms/r").json()["timeline"]
    assert [entry["kind"] for entry in timeline if entry["kind"] == "detail"] == ["detail"]


def test_a_worker_that_has_no_part_in_it_is_not_asked(server: Server) -> None:
    mismatch(server, Cluster())
    (answer,) = server.tell(speaker("decode", "d9").report())
    assert answer.wanted == []


def test_a_restart_forgets_no_want(settings: Settings) -> None:
    cluster = Cluster()
    with serve(settings) as first:
        mismatch(first, cluster)
    with serve(settings) as second:
        until(lambda: bool(wanted_by(second, cluster)))
        assert {want.kind for want in wanted_by(second, cluster)} == {"detail", "deep"}


def test_another_collector_on_the_same_database_asks_too(postgres_url: str) -> None:
    settings = Settings(database_url=postgres_url, auto_migrate=True, port=0, replica="a")
    cluster = Cluster()
    with serve(settings) as one, serve(settings.model_copy(update={"replica": "b"})) as other:
        mismatch(one, cluster)
        until(lambda: bool(wanted_by(other, cluster)))
        other.tell(
            cluster.decode.report(
                details=[
                    Detail(room="r", stage=Stage.receive, seq=98, at=time.time(), component="kv", gone=True)
                ]
            )
        )
        until(lambda: [want.kind for want in wanted_by(one, cluster)] == ["deep"])


def with_limits(settings: Settings, **limits: float) -> Settings:
    return settings.model_copy(update=limits)


def test_wants_expire(settings: Settings) -> None:
    cluster = Cluster()
    with serve(with_limits(settings, detail_s=0.3, deep_s=0.3)) as server:
        mismatch(server, cluster)
        assert wanted_by(server, cluster)
        until(lambda: not wanted_by(server, cluster))


@pytest.mark.parametrize(
    ("limits", "kinds"),
    [({"detail_s": 0.0}, {"deep"}), ({"deep_s": 0.0}, {"detail"}), ({"detail_s": 0.0, "deep_s": 0.0}, set())],
)
def test_asking_can_be_switched_off(settings: Settings, limits: dict[str, float], kinds: set[str]) -> None:
    cluster = Cluster()
    with serve(with_limits(settings, **limits)) as server:
        mismatch(server, cluster)
        assert {want.kind for want in wanted_by(server, cluster)} == kinds


def test_asking_is_bounded(settings: Settings) -> None:
    with serve(with_limits(settings, detail_rooms=2, deep_pairs=1)) as server:
        for number in range(4):
            cluster = Cluster(
                prefill=speaker("prefill", f"p{number}"), decode=speaker("decode", f"d{number}")
            )
            mismatch(server, cluster, f"r{number}")
        kinds = dict(server.sql("SELECT kind, count(DISTINCT worker) FROM wants GROUP BY kind"))
        assert kinds == {"detail": 4, "deep": 2}


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"digests": U64s.of([1, 2, 3])}, "digests"),
        ({"order_free": U64s.of([1])}, "order_free"),
        ({"layers": [1, 1]}, "layers"),
        ({"runs": [(3, 1), (0, 1)]}, "runs"),
        ({"layers": list(range(100)), "runs": [(0, 1 << 20)]}, "runs"),
        ({"component": "a,b"}, "component"),
        ({"at": time.time() + 1e7}, "at"),
    ],
)
def test_a_detail_that_makes_no_sense_is_refused_alone(
    server: Server, changes: dict[str, object], field: str
) -> None:
    good = {
        "room": "r",
        "keys": [KEY],
        "stage": Stage.receive,
        "seq": 1,
        "at": time.time(),
        "component": "kv",
        "layers": [0, 1],
        "runs": [(0, 2)],
        "digests": U64s.of([1, 2, 3, 4]),
    }
    decode = Cluster().decode
    report = decode.report(details=[Detail(**(good | changes)), Detail(**good)])  # type: ignore[arg-type]
    (answer,) = server.tell(report)
    assert answer.accepted == 1
    (refusal,) = answer.refused
    assert (refusal.kind.value, refusal.index) == ("details", 0)
    assert refusal.field.startswith(field)
