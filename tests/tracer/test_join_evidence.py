"""What a cause rests on and what was missing; nobody is accused beyond it: clocks, reuse, late records."""

from __future__ import annotations

import pytest
from support.rooms import D0, INDEX_K, KV, P0, POLICY, ZEROS, RoomBuilder
from support.wrongs import BAD, Build, component, holding, judged, manifests

from pd_tracer_hooks.wire import Owned, Stage
from tracer.join import judge
from tracer.join.model import Cause, ComponentVerdict, Verdict

#: Build with and without one piece of evidence, what is said without it, and how the lack is told.
LACKING: list[tuple[str, Build, Cause, str]] = [
    (
        "late without a later look, and allocate there: what is left is stale, and may yet come",
        lambda r: (
            r.look(Stage.allocate, KV.part(content="before"), worker=D0)
            .opened()
            .send(KV.part())
            .receive(KV.part(holds=holding("before", 3)))
        ),
        Cause.stale,
        "no recheck or admit observation: whether the bytes came later cannot be told",
    ),
    (
        "stale without allocate",
        lambda r: r.opened().send(KV.part()).receive(KV.part(holds=holding("before", 3))),
        Cause.unexplained,
        "no allocate observation: stale cannot be told from corrupt",
    ),
    (
        "allocate asked for after the pages were handed out",
        lambda r: (
            r.opened()
            .look(Stage.allocate, KV.part(content="before"), worker=D0)
            .send(KV.part())
            .receive(KV.part(holds=holding("before", 3)))
        ),
        Cause.unexplained,
        "allocate was read after the pages were handed out, and receive found the same: "
        "stale or damaged, which of them cannot be told",
    ),
    (
        "allocate asked for in time, and read too late",
        lambda r: (
            r.look(Stage.allocate, KV.part(content="before"), worker=D0, at=2000.0)
            .opened(at=1999.0)
            .send(KV.part())
            .receive(KV.part(holds=holding("before", 3)))
        ),
        Cause.unexplained,
        "allocate was read after the pages were handed out, and receive found the same: "
        "stale or damaged, which of them cannot be told",
    ),
    (
        "zeros without a layout",
        lambda r: r.opened().send(KV.part()).receive(KV.part(holds=holding(ZEROS, 3))),
        Cause.unexplained,
        "no manifest says how the pages are laid out: zeros cannot be recognised",
    ),
    (
        "zeros without allocate",
        lambda r: manifests(r).opened().send(KV.part()).receive(KV.part(holds=holding(ZEROS, 3))),
        Cause.zeroed,
        "no allocate observation: stale cannot be told from corrupt",
    ),
    (
        "a source that changed, and nobody looked at release",
        lambda r: r.opened().send(KV.part()).receive(KV.part(holds=BAD)),
        Cause.unexplained,
        "no release observation: whether prefill's pages changed during the transfer cannot be told",
    ),
    (
        "sent early is seen by nobody but a second look; the receive is wrong for another reason",
        lambda r: r.opened().send(KV.part()).receive(KV.part(holds=BAD)),
        Cause.unexplained,
        "no second look at send: whether the pages were sent before they were computed cannot be told",
    ),
    (
        "another room's bytes without its digests",
        lambda r: r.opened().send(KV.part()).receive(KV.part(holds=BAD)),
        Cause.unexplained,
        "no other room's page digests: whether the bytes are another room's cannot be told",
    ),
    (
        "another order without page digests",
        lambda r: r.opened().send(KV.part()).receive(KV.part(content="reversed prompt")),
        Cause.unexplained,
        "no page digests of both sides: whether pages are in another order cannot be told",
    ),
    (
        "a later look at pages that were no longer the room's",
        lambda r: (
            r.opened()
            .send(KV.part())
            .receive(KV.part(holds=BAD))
            .look(Stage.admit, KV.part(owned=Owned.no), worker=D0)
        ),
        Cause.unexplained,
        "admit was read when the pages were no longer the room's",
    ),
    (
        "a later look that did not read the place",
        lambda r: (
            r.opened()
            .send(KV.part())
            .receive(KV.part(holds=holding("other", 7)))
            .look(Stage.admit, KV.part([(0, 7)]), worker=D0)
        ),
        Cause.unexplained,
        "no later look read all of the places: whether the bytes came later cannot be told of every one",
    ),
]


@pytest.mark.parametrize(
    ("build", "cause", "lack"), [row[1:] for row in LACKING], ids=[r[0] for r in LACKING]
)
def test_what_was_not_observed_is_said_and_nobody_is_accused(build: Build, cause: Cause, lack: str) -> None:
    said = component(build)
    assert (said.verdict, said.cause) == (Verdict.mismatch, cause)
    assert said.evidence is not None
    assert lack in said.evidence.missing


def test_comparisons_say_what_the_cause_rests_on() -> None:
    said = component(
        lambda r: (
            r.look(Stage.allocate, KV.part(content="before"), worker=D0)
            .opened()
            .send(KV.part())
            .receive(KV.part(holds=holding("before", 3, 4)))
            .look(Stage.recheck, KV.part(holds=holding("before", 4)), worker=D0)
        )
    )
    assert said.evidence is not None
    assert said.evidence.unit == "bucket"
    told = [(c.look, c.against, c.equal, c.different) for c in said.evidence.comparisons]
    assert told == [
        ("receive", "send", 0, 2),
        ("recheck", "send", 1, 1),
        ("allocate", "receive", 2, 0),
    ]
    assert said.evidence.causes == {"late": 1, "stale": 1}
    assert said.cause is Cause.late


@pytest.mark.parametrize("hours", [-30 * 24, -5, 7, 400 * 24])
def test_clocks_of_two_hosts_are_not_compared(hours: float) -> None:
    def build(skew: float) -> ComponentVerdict:
        room = RoomBuilder().at(1e8)
        room.look(Stage.allocate, KV.part(content="before"), worker=D0, at=1e8)
        room.opened(at=1e8 + 1).send(KV.part(), at=1e8 + 2 + skew)
        room.receive(KV.part(holds=holding("before", 3)), at=1e8 + 3, signalled_at=1e8 + 2.5)
        room.look(Stage.release, KV.part(), worker=P0, at=1e8 + 4 + skew)
        room.look(Stage.recheck, KV.part(), worker=D0, at=1e8 + 3.25)
        (said,) = judged(room).components
        return said

    said = build(3600.0 * hours)
    assert said == build(0.0)
    assert said.timing is not None
    assert said.timing.after_signal_s == pytest.approx(0.75)


def test_evidence_that_comes_days_later_revises_the_cause() -> None:
    room = RoomBuilder().opened().send(KV.part()).receive(KV.part(holds=BAD))
    assert judged(room).cause is Cause.unexplained
    room.at(5 * 86400).look(Stage.admit, KV.part(), worker=D0)
    assert judged(room).cause is Cause.late
    right = RoomBuilder().opened().send(KV.part()).receive(KV.part())
    assert judged(right).verdict is Verdict.match
    right.at(5 * 86400).look(Stage.admit, KV.part(holds=BAD, owned=Owned.yes), worker=D0)
    assert judged(right).cause is Cause.overwritten


def test_each_attempt_has_its_own_allocate_when_pages_are_granted_again() -> None:
    room = RoomBuilder()
    room.look(Stage.allocate, KV.part(content="first"), worker=D0)
    room.opened(request="a").send(KV.part()).receive(KV.part(), request="a")
    room.look(Stage.admit, KV.part(), worker=D0, request="a")
    room.look(Stage.allocate, KV.part(content="second"), worker=D0)
    room.opened(request="b").send(KV.part()).receive(KV.part(holds=holding("second", 3)), request="b")
    said = judged(room)
    assert [attempt.verdict for attempt in said.attempts] == [Verdict.match, Verdict.mismatch]
    assert said.cause is Cause.stale
    shuffled = sorted(room.entries, key=lambda entry: -entry.record.seq)
    assert judge(shuffled, {}, POLICY, room.now) == said


def test_what_was_said_before_a_retraction_is_no_evidence() -> None:
    room = RoomBuilder().opened()
    room.send(KV.part(content="first try")).look(
        Stage.release, KV.part(content="first try"), worker=P0
    ).event("retracted", P0)
    room.send(KV.part()).receive(KV.part(holds=BAD))
    said = judged(room)
    assert (said.verdict, said.cause) == (Verdict.mismatch, Cause.unexplained)
    room.look(Stage.release, KV.part(holds=BAD), worker=P0)
    assert judged(room).cause is Cause.source_changed


def test_a_second_look_that_agrees_takes_the_blame_away() -> None:
    room = RoomBuilder().opened().send(KV.part(holds=BAD)).send(KV.part(), look=1).receive(KV.part())
    (said,) = judged(room).components
    assert (said.verdict, said.also_equal) == (Verdict.match, ["send 1"])
    assert said.notes == [
        "prefill's pages were still being computed when they were handed over, and arrived right"
    ]


def test_source_that_changed_after_it_was_sent_is_a_note() -> None:
    room = RoomBuilder().opened().send(KV.part()).receive(KV.part())
    room.look(Stage.release, KV.part(holds=BAD), worker=P0)
    (said,) = judged(room).components
    assert (said.verdict, said.cause) == (Verdict.match, None)
    assert said.notes == ["release found other bytes on prefill than had been sent, in pages 3-4"]


def test_the_worst_told_cause_is_the_rooms() -> None:
    room = RoomBuilder().opened().send(INDEX_K.part(), KV.part())
    room.receive(INDEX_K.part(damage={(0, 3)}), KV.part(holds=BAD), at=5.0)
    room.look(Stage.admit, INDEX_K.part(damage={(0, 3)}), KV.part(), worker=D0, at=5.5)
    assert judged(room).cause is Cause.late
