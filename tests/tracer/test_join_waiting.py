"""What is waited for, how long, and what is missing when the time is over."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import pytest
from support.rooms import D0, D1, INDEX_K, KEY, KEY2, KV, P0, P1, POLICY, RoomBuilder

from pd_tracer_hooks.wire import Stage
from tracer.join import judge
from tracer.join.model import RoomVerdict, Verdict

FIRST_LAYERS = dataclasses.replace(KV, layers=(0, 1))
LAST_LAYER = dataclasses.replace(KV, layers=(2,))
DRAFT = dataclasses.replace(KV, name="draft", layers=(60,))

SEND_S, OPEN_S = POLICY.send_deadline_s, POLICY.open_deadline_s

Build = Callable[[RoomBuilder], Any]


def judged(room: RoomBuilder, now: float | None = None) -> RoomVerdict:
    return judge(room.entries, room.manifests, POLICY, room.now if now is None else now)


def _both_move(room: RoomBuilder) -> RoomBuilder:
    for worker in (P0, D0):
        room.manifest(worker, KV.in_manifest(), INDEX_K.in_manifest())
    return room


#: (name, records, index of the record that the deadline counts from, seconds, what is said while waiting,
#: the verdict at the deadline and its reason).
WAITING: list[tuple[str, Build, int, float, str, Verdict, str]] = [
    (
        "opened, and nothing came",
        lambda r: r.opened(),
        0,
        OPEN_S,
        "waiting for a send (decode worker d0)",
        Verdict.missing_prefill,
        "prefill never reported a send within 600 s of opened (decode worker d0)",
    ),
    (
        "started counts anew",
        lambda r: r.opened().at(100).event("started", P0),
        1,
        OPEN_S,
        "waiting for a send (prefill worker p0 and decode worker d0)",
        Verdict.missing_prefill,
        "prefill worker p0 never reported a send within 600 s of started (decode worker d0)",
    ),
    (
        "started and not opened",
        lambda r: r.event("started", P0, keys=[]),
        0,
        OPEN_S,
        "waiting for a send (prefill worker p0)",
        Verdict.missing_prefill,
        "prefill worker p0 never reported a send within 600 s of started",
    ),
    (
        "only a stage that is not compared",
        lambda r: r.look(Stage.allocate, KV.part(), worker=D0),
        0,
        OPEN_S,
        "waiting for a send (decode worker d0)",
        Verdict.missing_prefill,
        "prefill never reported a send within 600 s of the last report (decode worker d0)",
    ),
    (
        "sent, and decode is unknown",
        lambda r: r.send(KV.part()),
        0,
        SEND_S,
        "kv: waiting for decode's receive, prefill worker p0 has sent",
        Verdict.missing_decode,
        "kv: decode never reported a receive within 180 s of the last send (prefill worker p0)",
    ),
    (
        "sent in two chunks, not received",
        lambda r: r.opened().send(KV.part([(0, 4)])).at(50).send(KV.part([(4, 4)])),
        2,
        SEND_S,
        "kv: waiting for decode worker d0's receive, prefill worker p0 has sent",
        Verdict.missing_decode,
        "kv: decode worker d0 never reported a receive within 180 s of the last send (prefill worker p0)",
    ),
    (
        "received in part",
        lambda r: r.opened().send(KV.part()).receive(KV.part([(0, 6)])),
        2,
        SEND_S,
        "kv: waiting for the rest of decode worker d0's receive: pages 6-7 of 8",
        Verdict.missing_decode,
        "kv: decode worker d0 reported only a part, without pages 6-7 of 8, and no more within 180 s of the "
        "last receive (prefill worker p0)",
    ),
    (
        "sent in part",
        lambda r: r.opened().send(KV.part([(0, 4)])),
        1,
        SEND_S,
        "kv: waiting for the rest of prefill worker p0's sends: pages 4-7 of 8",
        Verdict.missing_prefill,
        "kv: prefill worker p0 reported only a part, without pages 4-7 of 8, and no more within 180 s of the "
        "last send (decode worker d0)",
    ),
    (
        "sent in part: one layer short of some pages",
        lambda r: r.opened().send(KV.part([(0, 8)], [0, 1])).send(KV.part([(0, 4)], [2])),
        2,
        SEND_S,
        "kv: waiting for the rest of prefill worker p0's sends: some of layers 0-2, pages 0-7",
        Verdict.missing_prefill,
        "kv: prefill worker p0 reported only a part, without some of layers 0-2, pages 0-7, and no more "
        "within 180 s of the last send (decode worker d0)",
    ),
    (
        "received, and never sent",
        lambda r: r.opened().at(20).receive(KV.part()),
        1,
        SEND_S,
        "kv: waiting for a send of prefill, decode worker d0 has received",
        Verdict.missing_prefill,
        "kv: prefill never reported a send within 180 s of the last receive (decode worker d0)",
    ),
    (
        "a pipeline rank is late",
        lambda r: r.opened().send(FIRST_LAYERS.part()).receive(KV.part()),
        2,
        SEND_S,
        "kv: waiting for layer 2 from prefill worker p0",
        Verdict.incomparable,
        "kv: layers differ: no layer 2 from prefill worker p0 within 180 s of the last receive",
    ),
    (
        "each side has layers that the other lacks",
        lambda r: r.opened().send(FIRST_LAYERS.part()).receive(LAST_LAYER.part()),
        2,
        SEND_S,
        "kv: waiting for layer 2 from prefill worker p0 and layers 0-1 from decode worker d0",
        Verdict.incomparable,
        "kv: layers differ: no layer 2 from prefill worker p0 and layers 0-1 from decode worker d0 within "
        "180 s of the last receive",
    ),
    (
        "prefill went back to its queue",
        lambda r: r.opened().send(KV.part([(0, 4)])).at(30).event("retracted", P0),
        2,
        OPEN_S,
        "kv: waiting for the rest of prefill worker p0's sends: pages 4-7 of 8",
        Verdict.missing_prefill,
        "kv: prefill worker p0 reported only a part, without pages 4-7 of 8, and no more within 600 s of "
        "prefill's new start (decode worker d0)",
    ),
    (
        "decode never reports a component that prefill sent",
        lambda r: r.opened().send(KV.part(), INDEX_K.part()).receive(KV.part()),
        2,
        SEND_S,
        "index_k: waiting for decode worker d0's receive, prefill worker p0 has sent",
        Verdict.missing_component,
        "index_k: decode worker d0 completed kv and reported nothing of it within 180 s of the last receive",
    ),
    (
        "prefill never sends a component that both say they move",
        lambda r: _both_move(r).opened().send(KV.part()).receive(KV.part(), INDEX_K.part()),
        2,
        SEND_S,
        "index_k: waiting for a send of prefill, decode worker d0 has received",
        Verdict.missing_component,
        "index_k: prefill worker p0 completed kv and reported nothing of it within 180 s of the last receive",
    ),
    (
        "neither reports a component that both say they move",
        lambda r: _both_move(r).opened().send(KV.part()).receive(KV.part()),
        2,
        SEND_S,
        "index_k: waiting for a send (prefill worker p0 and decode worker d0)",
        Verdict.missing_component,
        "index_k: prefill worker p0 and decode worker d0 completed kv and reported nothing of it within "
        "180 s of the last receive",
    ),
    (
        "decode is silent, whatever the manifests say",
        lambda r: (
            r.manifest(P0, KV.in_manifest(), INDEX_K.in_manifest())
            .manifest(D0, KV.in_manifest())
            .opened()
            .send(KV.part(), INDEX_K.part())
        ),
        1,
        SEND_S,
        "index_k, kv: waiting for decode worker d0's receive, prefill worker p0 has sent",
        Verdict.missing_decode,
        "index_k, kv: decode worker d0 never reported a receive within 180 s of the last send "
        "(prefill worker p0)",
    ),
    (
        "sent once under a key that was opened twice",
        lambda r: r.opened().receive(KV.part()).opened().send(KV.part()),
        2,
        OPEN_S,
        "kv: the transfer key was used 2 times and sent once: which send was for which cannot be told",
        Verdict.ambiguous,
        "kv: the transfer key was used 2 times and sent once: which send was for which cannot be told "
        "(attempt 2, after 1 ambiguous)",
    ),
]


@pytest.mark.parametrize("row", WAITING, ids=[row[0] for row in WAITING])
def test_the_deadline_decides(row: tuple[str, Build, int, float, str, Verdict, str]) -> None:
    _, build, counted_from, seconds, waiting, verdict, reason = row
    room = RoomBuilder()
    build(room)
    deadline = room.entries[counted_from].received + seconds
    before = judged(room, deadline - 0.001)
    assert (before.verdict, before.settled, before.deadline) == (Verdict.pending, False, deadline)
    assert before.reason == waiting
    after = judged(room, deadline)
    assert (after.verdict, after.settled, after.deadline) == (verdict, True, None)
    assert after.reason == reason
    assert judged(room, deadline + 1e6) == after


def test_what_comes_after_the_deadline_revises() -> None:
    room = RoomBuilder().opened().send(KV.part())
    assert judged(room, room.now + SEND_S).verdict is Verdict.missing_decode
    room.at(5000).receive(KV.part())
    assert judged(room).verdict is Verdict.match


def test_a_manifest_of_one_pipeline_rank_accuses_nobody() -> None:
    """Only the last rank holds the draft model: until it speaks, prefill seems not to have it."""
    room = RoomBuilder().manifest(P0, KV.in_manifest()).manifest(P1, KV.in_manifest(), DRAFT.in_manifest())
    room.manifest(D0, KV.in_manifest(), DRAFT.in_manifest()).opened().send(FIRST_LAYERS.part())
    for step in (
        lambda: room.receive(KV.part(), DRAFT.part()),
        lambda: room.send(LAST_LAYER.part(), DRAFT.part(), worker=P1),
    ):
        assert judged(room).verdict is Verdict.pending
        step()
    assert judged(room).verdict is Verdict.match


def test_a_rank_that_does_not_move_a_component_does_not_speak_for_the_one_that_does() -> None:
    room = RoomBuilder().manifest(P0, KV.in_manifest(), DRAFT.in_manifest(moved=False))
    room.manifest(P1, KV.in_manifest(), DRAFT.in_manifest()).manifest(
        D0, KV.in_manifest(), DRAFT.in_manifest()
    )
    room.opened().send(KV.part(layers=[0, 1])).send(KV.part(layers=[2]), worker=P1).receive(KV.part())
    assert judged(room).verdict is Verdict.pending
    room.send(DRAFT.part(), worker=P1).receive(DRAFT.part())
    assert judged(room).verdict is Verdict.match


def test_a_component_that_is_reported_counts_more_than_a_manifest() -> None:
    room = RoomBuilder()
    for worker in (P0, D0):
        room.manifest(worker, KV.in_manifest(moved=False))
    assert judged(room.opened().send(KV.part()).receive(KV.part())).verdict is Verdict.match


def test_a_component_is_not_waited_for_when_a_manifest_is_unknown() -> None:
    room = RoomBuilder().manifest(P0, KV.in_manifest(), INDEX_K.in_manifest())
    assert judged(room.opened().send(KV.part()).receive(KV.part())).settled


def test_missing_component_is_said_while_the_transfer_goes_on_elsewhere() -> None:
    """The index travels with the last chunk of kv, so the finding comes when kv is complete, not before."""
    room = RoomBuilder().manifest(P0, KV.in_manifest(), INDEX_K.in_manifest()).manifest(D0, KV.in_manifest())
    room.opened().send(KV.part([(0, 4)]))
    assert judged(room).verdict is Verdict.pending
    room.send(KV.part([(4, 4)]), INDEX_K.part())
    assert judged(room).verdict is Verdict.pending
    room.receive(KV.part())
    assert judged(room).verdict is Verdict.missing_component


def test_one_silent_rank_of_two_is_missing() -> None:
    """Both ranks are served by one send; the second never opened and never received."""
    room = RoomBuilder().opened().send(KV.part(), keys=[KEY, KEY2]).receive(KV.part())
    assert judged(room).verdict is Verdict.pending
    late = judged(room, room.now + SEND_S)
    assert late.verdict is Verdict.missing_decode
    assert len(late.attempts) == 1
    assert [(t.key, t.verdict) for t in late.attempts[0].transfers] == [
        (KEY, Verdict.match),
        (KEY2, Verdict.missing_decode),
    ]
    room.receive(KV.part(), worker=D1, keys=[KEY2])
    assert judged(room).verdict is Verdict.match


def test_an_earlier_attempt_has_a_deadline_of_its_own() -> None:
    room = RoomBuilder().opened(request="r1").opened(keys=[KEY2], request="r2")
    room.send(KV.part(), keys=[KEY2]).receive(KV.part(), keys=[KEY2], request="r2")
    said = judged(room)
    assert (said.verdict, said.settled) == (Verdict.match, True)
    assert said.deadline == room.entries[0].received + OPEN_S
    later = judged(room, said.deadline)
    assert (later.verdict, later.deadline) == (Verdict.match, None)
    assert [attempt.verdict for attempt in later.attempts] == [Verdict.missing_prefill, Verdict.match]
    assert later.reason.endswith("(attempt 2, after 1 missing_prefill)")


def test_reports_in_reverse_give_no_negative_delay() -> None:
    room = RoomBuilder().receive(KV.part()).send(KV.part())
    assert judged(room).join_delay_s == 0.0
    assert judged(RoomBuilder().send(KV.part())).join_delay_s is None
