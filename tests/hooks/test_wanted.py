"""What a worker answers when it is asked for more."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest
from support.recorder import Recorder, recording

from pd_tracer_hooks.agent import Agent
from pd_tracer_hooks.capture import ComponentLook, Look
from pd_tracer_hooks.digest.backend import Pool
from pd_tracer_hooks.digest.cpu import CpuBackend
from pd_tracer_hooks.digest.definition import cell_sum, page_digest
from pd_tracer_hooks.identity import describe_worker
from pd_tracer_hooks.journal import Entry, Journal
from pd_tracer_hooks.layout import PageLayout
from pd_tracer_hooks.settings import Settings
from pd_tracer_hooks.wanted import DETAIL_BYTES, REPEAT_S, Wanted
from pd_tracer_hooks.wire import Answer, Coverage, Detail, Report, Side, Stage, Want, encode

POOL = Pool("kv", PageLayout.plain(4, 16), {layer: bytes(range(64)) * 32 for layer in (0, 1)})


class Line:
    """A Wanted with a clock of its own and a queue that may be full."""

    def __init__(self, journal: Journal, deep_limit_s: float = 900.0) -> None:
        self.now = 1000.0
        self.sent: list[Detail] = []
        self.full = False
        self.wanted = Wanted(
            journal,
            Side.decode,
            deliver=self._deliver,
            next_seq=lambda: len(self.sent),
            deep_limit_s=deep_limit_s,
            clock=lambda: self.now,
        )

    def _deliver(self, detail: Detail) -> bool:
        if not self.full:
            self.sent.append(detail)
        return not self.full

    def ask(self, **want: object) -> list[Detail]:
        before = len(self.sent)
        self.wanted.take([Want(kind="detail", **want)])  # type: ignore[arg-type]
        return self.sent[before:]


def kept(room: str = "r", layers: int = 2, pages: int = 3) -> Entry:
    return Entry(
        room=room,
        keys=("0" * 16,),
        stage=Stage.receive,
        look=0,
        component="kv",
        layers=tuple(range(layers)),
        runs=((0, pages),),
        digests=bytes(range(256)) * (8 * layers * pages // 256) + bytes(8 * layers * pages % 256),
    )


@pytest.fixture
def line() -> Line:
    journal = Journal(64 << 20)
    journal.keep(kept())
    return Line(journal)


def test_a_detail_is_what_was_kept(line: Line) -> None:
    (detail,) = line.ask(room="r")
    assert (detail.room, detail.stage, detail.component) == ("r", Stage.receive, "kv")
    assert (detail.layers, detail.runs, detail.gone) == ([0, 1], [(0, 3)], False)
    assert bytes(detail.digests) == kept().digests


def test_order_free_sums_go_along_where_they_were_kept() -> None:
    journal = Journal(64 << 20)
    journal.keep(replace(kept(), order_free=bytes(range(48))))
    (detail,) = Line(journal).ask(room="r")
    assert bytes(detail.order_free) == bytes(range(48))


def test_a_repeated_want_is_answered_once_until_it_may_have_been_lost(line: Line) -> None:
    assert len(line.ask(room="r", until=1.0)) == 1
    assert line.ask(room="r", until=2.0) == []
    line.now += REPEAT_S + 1
    assert len(line.ask(room="r", until=3.0)) == 1


def test_what_is_gone_is_said_to_be(line: Line) -> None:
    (detail,) = line.ask(room="nowhere", keys=["f" * 16])
    assert (detail.gone, detail.room, detail.stage, detail.keys) == (
        True,
        "nowhere",
        Stage.receive,
        ["f" * 16],
    )
    assert "journal" in detail.reason
    (detail,) = line.ask(room="nowhere", stages=["admit"], component="kv")
    assert (detail.stage, detail.component) == (Stage.admit, "kv")


def test_large_ones_are_split_by_layers() -> None:
    pages = DETAIL_BYTES // 8 // 3
    journal = Journal(64 << 20)
    journal.keep(kept(layers=7, pages=pages))
    details = Line(journal).ask(room="r")
    assert [detail.layers for detail in details] == [[0, 1, 2], [3, 4, 5], [6]]
    assert b"".join(bytes(detail.digests) for detail in details) == kept(layers=7, pages=pages).digests


def test_a_full_queue_means_answering_when_asked_again(line: Line) -> None:
    line.full = True
    assert line.ask(room="r") == []
    line.full = False
    assert len(line.ask(room="r")) == 1


def test_kinds_from_the_future_are_left_alone(line: Line) -> None:
    line.wanted.take([Want(kind="tea", room="r")])
    assert line.sent == []


@pytest.mark.parametrize(
    ("limit", "asked", "lasts"), [(900.0, 60.0, 60.0), (30.0, 60.0, 30.0), (0.0, 60.0, 0.0)]
)
def test_a_closer_look_ends_by_itself(limit: float, asked: float, lasts: float) -> None:
    line = Line(Journal(0), deep_limit_s=limit)
    assert not line.wanted.deep
    line.wanted.take([Want(kind="deep", for_s=asked)])
    assert line.wanted.deep is (lasts > 0)
    line.now += lasts + 0.1
    assert not line.wanted.deep


def ask_once(want: Want) -> Recorder:
    def reply(number: int, report: Report) -> tuple[int, bytes, dict[str, str]]:
        return 200, encode(Answer(accepted=1, wanted=[want] if report.observations else [])), {}

    return Recorder(reply)


def agent_for(recorder: Recorder, backend: CpuBackend | None = None, **changes: object) -> Agent:
    settings = Settings(url=recorder.url, deployment="d", server="D0", flush_ms=5.0, k=1, **changes)  # type: ignore[arg-type]
    return Agent(settings, describe_worker(settings, side=Side.decode), backend=backend or CpuBackend())


def look(room: str) -> Look:
    part = ComponentLook(pool=POOL, pages=[3, 4, 5, 6], total_pages=4)
    return Look(room=room, keys=["0" * 16], stage=Stage.receive, components=[part])


@pytest.fixture
def detail_wanted() -> Iterator[Recorder]:
    with recording(ask_once(Want(kind="detail", room="r"))) as running:
        yield running


def details(recorder: Recorder) -> list[Detail]:
    return [detail for report in recorder.reports for detail in report.details]


def test_an_agent_answers_with_the_digests_behind_its_sums(detail_wanted: Recorder) -> None:
    agent = agent_for(detail_wanted, coverage="full")
    agent.observe(look("r"))
    detail_wanted.wait(lambda: bool(details(detail_wanted)))
    assert agent.close(5)
    (detail,), (seen,) = details(detail_wanted), detail_wanted.observations
    assert detail.seq > seen.seq
    expected = [
        page_digest(bytes(POOL.buffers[layer][64 * page : 64 * page + 64]))
        for layer in (0, 1)
        for page in (3, 4, 5, 6)
    ]
    assert list(detail.digests.values()) == expected
    cells = [(n // 4, n % 4, value) for n, value in enumerate(expected)]
    assert seen.components[0].sums.values()[2] == cell_sum(cells)


class Device(CpuBackend):
    """A backend that costs the engine's thread nothing, as far as an agent can tell."""

    name = "device"


@pytest.mark.parametrize(("backend", "coverage"), [(Device(), Coverage.full), (CpuBackend(), Coverage.ends)])
def test_an_agent_looks_closer_when_asked(backend: CpuBackend, coverage: Coverage) -> None:
    with recording(ask_once(Want(kind="deep", for_s=60.0))) as recorder:
        agent = agent_for(recorder, backend, coverage="ends")
        agent.observe(look("before"))
        recorder.wait(lambda: len(recorder.observations) == 1)
        while not agent.deep:  # until the answer was read
            recorder.wait(lambda: True)
        agent.observe(look("after"))
        recorder.wait(lambda: len(recorder.observations) == 2)
        assert agent.close(5)
    first, second = (seen.components[0] for seen in recorder.observations)
    assert (first.coverage, second.coverage) == (Coverage.ends, coverage)
    assert first.signature == second.signature
    assert len(first.layer_sums) == 0
    assert len(second.layer_sums) == 8 * 3 * 2
