"""The table of verdicts: what both sides report, and what is said of it."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import pytest
from support.rooms import (
    D0,
    D1,
    INDEX_K,
    KEY,
    KEY2,
    KV,
    P0,
    P1,
    POLICY,
    Component,
    RoomBuilder,
)

from pd_tracer_hooks.wire import Coverage, Owned, Stage
from tracer.join import judge
from tracer.join.model import Cause, ComponentVerdict, RoomVerdict, Verdict

ENDS_KV = dataclasses.replace(KV, coverage=Coverage.ends)
LONG = dataclasses.replace(KV, pages=10)
EMPTY = dataclasses.replace(KV, pages=0)
HALF_HEADS = dataclasses.replace(KV, head_slice="0/2")
OTHER_HALF = dataclasses.replace(KV, head_slice="1/2")
LATER_LAYERS = dataclasses.replace(KV, layers=(1, 2, 3))

Build = Callable[[RoomBuilder], Any]


def judged(room: RoomBuilder, now: float | None = None) -> RoomVerdict:
    return judge(room.entries, room.manifests, POLICY, room.now if now is None else now)


def component(verdict: RoomVerdict, name: str = "kv") -> ComponentVerdict:
    return next(c for c in verdict.components if c.component == name)


def _both(sent: Component, received: Component, **damage: Any) -> Build:
    return lambda room: room.opened().send(sent.part()).receive(received.part(**damage))


def _manifests(room: RoomBuilder, prefill: Component, decode: Component) -> RoomBuilder:
    return room.manifest(P0, prefill.in_manifest()).manifest(D0, decode.in_manifest())


#: (name, records, verdict, reason), judged right after the last record. Every one of these is settled.
SETTLED: list[tuple[str, Build, Verdict, str]] = [
    (
        "everything is equal",
        _both(KV, KV),
        Verdict.match,
        "kv: equal in full (8 pages x 3 layers)",
    ),
    (
        "equal at the ends says nothing of the middle",
        _both(ENDS_KV, ENDS_KV),
        Verdict.match,
        "kv: equal at both ends (8 pages x 3 layers, pages 2-5 not read)",
    ),
    (
        "one side read everything, the other the ends",
        _both(KV, ENDS_KV),
        Verdict.match,
        "kv: equal at both ends (8 pages x 3 layers, pages 2-5 not read)",
    ),
    (
        "nothing on both sides is equal",
        _both(EMPTY, EMPTY),
        Verdict.match,
        "kv: equal in full (0 pages x 3 layers)",
    ),
    (
        "a bit flipped in a middle page",
        _both(KV, KV, damage={(1, 4)}),
        Verdict.mismatch,
        "kv: body differs in layer 1, page 4 of 8",
    ),
    (
        "a bit flipped in the last page, ends only",
        _both(ENDS_KV, ENDS_KV, damage={(2, 7)}),
        Verdict.mismatch,
        "kv: tail differs in layer 2, pages 6-7 of 8",
    ),
    (
        "a component withheld although it was in the list",
        lambda r: (
            r.opened()
            .send(KV.part(), INDEX_K.part())
            .receive(KV.part(), INDEX_K.part(content="what was there before"))
        ),
        Verdict.mismatch,
        "index_k: head, tail and body differ in layers 0, 2, pages 0-7 of 8",
    ),
    (
        "signatures differ, and the manifests say in what",
        lambda r: _both(KV, HALF_HEADS)(_manifests(r, KV, HALF_HEADS)),
        Verdict.incomparable,
        "kv: signatures differ in head_slice (prefill '', decode '0/2')",
    ),
    (
        "signatures differ, and nobody says in what",
        _both(KV, HALF_HEADS),
        Verdict.incomparable,
        f"kv: signatures differ (prefill {KV.signature}, decode {HALF_HEADS.signature}); "
        "no manifest says in which field",
    ),
    (
        "two ranks sent other heads to one",
        lambda r: (
            r.manifest(P0, HALF_HEADS.in_manifest())
            .manifest(P1, OTHER_HALF.in_manifest())
            .opened()
            .send(HALF_HEADS.part())
            .send(OTHER_HALF.part(), worker=P1)
            .receive(HALF_HEADS.part())
        ),
        Verdict.incomparable,
        "kv: signatures differ in head_slice (one part '0/2', another '1/2')",
    ),
    (
        "one signature with two sizes of head and tail",
        lambda r: r.opened().send(KV.part()).receive(KV.part(k=3, cells=[9, 9, 24])),
        Verdict.incomparable,
        "kv: head and tail have 2 pages on prefill, 3 on decode, under one signature",
    ),
    (
        "pages counted differently",
        _both(LONG, KV),
        Verdict.count_mismatch,
        "kv: prefill counts 10, decode 8 pages",
    ),
    (
        "pages against none",
        _both(KV, EMPTY),
        Verdict.count_mismatch,
        "kv: prefill counts 8, decode 0 pages",
    ),
    (
        "tokens counted differently",
        lambda r: r.opened().send(KV.part(), tokens=32).receive(KV.part(), tokens=31),
        Verdict.count_mismatch,
        "kv: prefill counts 32, decode 31 tokens",
    ),
    (
        "rows of the last page counted differently",
        lambda r: r.opened().send(KV.part(last_rows=3)).receive(KV.part(last_rows=2)),
        Verdict.count_mismatch,
        "kv: prefill counts 3, decode 2 rows in the last page",
    ),
    (
        "the transfer starts elsewhere",
        lambda r: r.opened().send(KV.part(start=4)).receive(KV.part(start=5)),
        Verdict.count_mismatch,
        "kv: prefill counts 4, decode 5 as the page where the transfer starts",
    ),
    (
        "decode held everything, prefill sent nevertheless",
        lambda r: r.event("nothing_transferred", D0, reason="prefix held").send(KV.part()),
        Verdict.count_mismatch,
        "kv: prefill counts 8 pages, but nothing to transfer, says decode worker d0: prefix held",
    ),
    (
        "a component that decode's pool does not have",
        lambda r: (
            r.manifest(P0, KV.in_manifest(), INDEX_K.in_manifest())
            .manifest(D0, KV.in_manifest())
            .opened()
            .send(KV.part(), INDEX_K.part())
            .receive(KV.part())
        ),
        Verdict.missing_component,
        "index_k: by its manifest decode does not have it, prefill worker p0 reported it",
    ),
    (
        "a component that prefill holds and does not move",
        lambda r: (
            r.manifest(P0, KV.in_manifest(), INDEX_K.in_manifest(moved=False))
            .manifest(D0, KV.in_manifest(), INDEX_K.in_manifest())
            .opened()
            .send(KV.part())
            .receive(KV.part(), INDEX_K.part())
        ),
        Verdict.missing_component,
        "index_k: by its manifest prefill has it and does not move it, decode worker d0 reported it",
    ),
    (
        "a component that nobody moves or reports",
        lambda r: (
            r.manifest(P0, KV.in_manifest(), INDEX_K.in_manifest(moved=False))
            .manifest(D0, KV.in_manifest(), INDEX_K.in_manifest(moved=False))
            .opened()
            .send(KV.part())
            .receive(KV.part())
        ),
        Verdict.missing_component,
        "index_k: by its manifest prefill has it and does not move it, and neither side reported it",
    ),
    (
        "a component that one side alone says is not moved",
        lambda r: (
            r.manifest(D0, KV.in_manifest(), INDEX_K.in_manifest(moved=False))
            .opened()
            .send(KV.part())
            .receive(KV.part())
        ),
        Verdict.missing_component,
        "index_k: by its manifest decode has it and does not move it, and neither side reported it",
    ),
    (
        "pages freed before they were read, on prefill",
        lambda r: r.opened().send(KV.part(owned=Owned.no)).receive(KV.part()),
        Verdict.dropped,
        "kv: pages_freed: the pages were no longer the room's when prefill worker p0 read them",
    ),
    (
        "pages freed before they were read, on decode",
        lambda r: r.opened().send(KV.part()).receive(KV.part(damage={(0, 0)}, owned=Owned.no)),
        Verdict.dropped,
        "kv: pages_freed: the pages were no longer the room's when decode worker d0 read them",
    ),
    (
        "the engine aborted",
        lambda r: r.opened().send(KV.part([(0, 4)])).event("aborted", P0, reason="client gone"),
        Verdict.aborted,
        "kv: aborted, says prefill worker p0: client gone",
    ),
    (
        "the engine failed",
        lambda r: r.opened().event("aborted", P0).event("failed", D0, reason="KVPoll.Failed"),
        Verdict.failed,
        "failed, says decode worker d0: KVPoll.Failed",
    ),
    (
        "decode retracted the request before it had received",
        lambda r: r.opened().send(KV.part()).event("retracted", D0),
        Verdict.aborted,
        "kv: retracted, says decode worker d0",
    ),
    (
        "decode held the whole prefix",
        lambda r: r.event("nothing_transferred", D0, reason="prefix of 8 pages held"),
        Verdict.nothing_transferred,
        "nothing to transfer, says decode worker d0: prefix of 8 pages held",
    ),
    (
        "left out of the sample",
        lambda r: r.opened().event("sampled_out", P0, keys=[]),
        Verdict.sampled_out,
        "left out of the sample, says prefill worker p0",
    ),
    (
        "left out by one side only",
        lambda r: r.opened().send(KV.part()).event("sampled_out", D0),
        Verdict.sampled_out,
        "kv: left out of the sample, says decode worker d0",
    ),
    (
        "lost in the worker's queue",
        lambda r: r.opened().send(KV.part([(0, 4)])).event("dropped", P0, reason="queue_full"),
        Verdict.dropped,
        "kv: dropped, says prefill worker p0: queue_full",
    ),
    (
        "one component was lost",
        lambda r: (
            r.opened()
            .send(KV.part(), INDEX_K.part())
            .receive(KV.part())
            .event("dropped", D0, component="index_k", reason="queue_full")
        ),
        Verdict.dropped,
        "index_k: dropped, says decode worker d0: queue_full",
    ),
    (
        "two transfers at once, and no key tells which was sent for",
        lambda r: (
            r.opened(request="r1")
            .opened(keys=[KEY2], request="r2")
            .send(KV.part(), keys=[])
            .receive(KV.part(), keys=[KEY2], request="r2")
        ),
        Verdict.ambiguous,
        "kv: several transfers of this room were open and no transfer key tells which one the sends were for "
        "(attempt 2, after 1 ambiguous)",
    ),
]


@pytest.mark.parametrize(
    ("build", "verdict", "reason"), [row[1:] for row in SETTLED], ids=[r[0] for r in SETTLED]
)
def test_settled(build: Build, verdict: Verdict, reason: str) -> None:
    room = RoomBuilder()
    build(room)
    said = judged(room)
    assert (said.verdict, said.reason) == (verdict, reason)
    assert said.settled
    assert said.attempts[-1].verdict is verdict
    assert said.deadline is None
    assert said.cause is (Cause.unexplained if verdict is Verdict.mismatch else None)
    # Time changes nothing that is settled.
    assert judged(room, room.now + 10_000.0).components == said.components


def test_the_table_has_every_verdict_that_can_settle_at_once() -> None:
    later = {Verdict.pending, Verdict.missing_decode, Verdict.missing_prefill}
    assert {row[2] for row in SETTLED} == set(Verdict) - later


def test_what_a_component_verdict_carries() -> None:
    room = _manifests(RoomBuilder(), KV, dataclasses.replace(KV, layers=(0, 1, 2, 3)))
    room.opened(peer="10.0.0.1:8998", request="d-req", trace="t1")
    room.send(KV.part(), request="p-req").receive(KV.part(damage={(1, 4)}), request="d-req")
    said = judged(room)
    kv = component(said)
    assert (kv.verdict, kv.cause, kv.coverage) == (Verdict.mismatch, Cause.unexplained, Coverage.full)
    assert (kv.layers, kv.layers_of) == ([0, 1, 2], 4)
    assert (kv.prefill.pages, kv.decode.pages) == (8, 8)
    assert kv.prefill.finals["head"] == kv.decode.finals["head"]
    assert kv.prefill.finals["body"] != kv.decode.finals["body"]
    attempt = said.attempts[0]
    assert (attempt.number, attempt.prefill_server, attempt.decode_server) == (1, "P", "D")
    assert (attempt.request_prefill, attempt.request_decode) == ("p-req", "d-req")
    assert said.trace == "t1"
    transfer = attempt.transfers[0]
    assert (transfer.key, transfer.prefill_workers, transfer.decode_workers) == (KEY, ["p0"], ["d0"])
    send, receive = room.entries[-2:]
    assert said.join_delay_s == receive.received - send.received


def test_a_side_that_never_spoke_is_named_by_its_alias() -> None:
    opened = judged(RoomBuilder().opened(peer="10.0.0.1:8998")).attempts[0]
    assert (opened.prefill_server, opened.decode_server) == ("10.0.0.1:8998", "D")
    sent = judged(RoomBuilder().send(KV.part(), peer="agent-7")).attempts[0]
    assert (sent.prefill_server, sent.decode_server) == ("P", "agent-7")


def test_a_mismatch_is_said_before_the_rest_is_in() -> None:
    room = RoomBuilder().opened().send(KV.part(), INDEX_K.part()).receive(KV.part(damage={(0, 0)}))
    early = judged(room)
    assert (early.verdict, early.settled) == (Verdict.mismatch, False)
    assert early.deadline == room.entries[-1].received + POLICY.send_deadline_s
    assert component(early, "index_k").verdict is Verdict.pending
    room.receive(INDEX_K.part())
    assert judged(room).settled


def test_an_incomparable_component_waits_for_the_other() -> None:
    room = RoomBuilder().opened().send(KV.part(), INDEX_K.part()).receive(HALF_HEADS.part())
    assert judged(room).verdict is Verdict.pending
    room.receive(INDEX_K.part(damage={(0, 0)}))
    assert judged(room).verdict is Verdict.mismatch


@pytest.mark.parametrize(
    ("sent", "received", "note"),
    [
        (LONG.part(), KV.part(), "head (the first 2 pages) is equal"),
        (LONG.part(), KV.part(damage={(0, 0)}), "head (the first 2 pages) is different"),
        (dataclasses.replace(KV, pages=1).part(), KV.part(), None),
        (LONG.part(layers=[0, 1]), KV.part(), None),
    ],
)
def test_heads_are_compared_when_the_counts_differ(sent: Any, received: Any, note: str | None) -> None:
    kv = component(judged(RoomBuilder().opened().send(sent).receive(received)))
    assert kv.verdict is Verdict.count_mismatch
    assert kv.notes == ([note] if note else [])
    assert kv.where is None


def test_a_count_mismatch_is_said_at_once_and_settles_with_the_last_part() -> None:
    room = RoomBuilder().opened().send(LONG.part([(0, 4)])).receive(KV.part())
    early = judged(room)
    assert (early.verdict, early.settled) == (Verdict.count_mismatch, False)
    assert judged(room, room.now + 180.0).settled
    room.send(LONG.part([(4, 6)]))
    assert judged(room).settled


@pytest.mark.parametrize("tokens", [(None, 31), (32, None), (32, 32)])
def test_counts_that_one_side_does_not_state_are_not_compared(tokens: tuple[int | None, int | None]) -> None:
    room = RoomBuilder().opened()
    room.send(KV.part(start=3), tokens=tokens[0]).receive(KV.part(last_rows=2), tokens=tokens[1])
    assert judged(room).verdict is Verdict.match


@pytest.mark.parametrize("kind", ["aborted", "failed", "retracted", "dropped", "sampled_out"])
def test_a_complete_transfer_is_judged_by_its_bytes_whatever_the_engine_said(kind: str) -> None:
    room = RoomBuilder().opened().send(KV.part()).receive(KV.part()).event(kind, D0, reason="why")
    said = judged(room)
    assert said.verdict is Verdict.match
    (note,) = said.attempts[0].transfers[0].notes
    assert note.endswith("says decode worker d0: why")


def test_an_abort_after_the_receive_does_not_excuse_prefill() -> None:
    room = RoomBuilder().opened().receive(KV.part()).event("aborted", P0)
    assert judged(room).verdict is Verdict.pending
    assert judged(room, room.now + 180.0).verdict is Verdict.missing_prefill


def test_doubt_about_ownership_is_noted_where_it_matters() -> None:
    room = RoomBuilder().opened().send(KV.part(owned=Owned.yes)).receive(KV.part(damage={(0, 0)}))
    assert component(judged(room)).notes == [
        "decode worker d0 could not tell whether the pages still belonged to the room"
    ]
    sure = RoomBuilder().opened().send(KV.part(owned=Owned.yes))
    assert component(judged(sure.receive(KV.part(damage={(0, 0)}, owned=Owned.yes)))).notes == []
    equal = RoomBuilder().opened().send(KV.part()).receive(KV.part())
    assert component(judged(equal)).notes == []


@pytest.mark.parametrize("owned", [Owned.no, Owned.unknown])
@pytest.mark.parametrize("stage", [Stage.allocate, Stage.recheck, Stage.admit])
def test_other_stages_make_no_mismatch_of_pages_that_may_be_anothers(stage: Stage, owned: Owned) -> None:
    room = RoomBuilder().opened().send(KV.part()).receive(KV.part())
    before = judged(room)
    room.look(stage, KV.part(content="something else", owned=owned), worker=D0)
    room.look(Stage.release, KV.part(content="something else", owned=owned), worker=P0)
    room.receive(KV.part(content="a second look"), look=1)
    (said,) = judged(room).components
    assert said.notes or stage is Stage.allocate
    assert said.verdict is Verdict.match
    assert (said.cause, said.reason, said.also_equal) == (None, before.components[0].reason, [])


def test_components_of_a_room_are_the_worst_of_its_transfers() -> None:
    room = RoomBuilder().opened().opened(worker=D1, keys=[KEY2]).send(KV.part(), keys=[KEY, KEY2])
    room.receive(KV.part()).receive(KV.part(damage={(2, 3)}), worker=D1, keys=[KEY2])
    said = judged(room)
    assert said.verdict is Verdict.mismatch
    assert said.reason == "1 of 2 transfers: kv: body differs in layer 2, page 3 of 8"
    assert [c.verdict for c in said.components] == [Verdict.mismatch]
    assert [t.verdict for t in said.attempts[0].transfers] == [Verdict.match, Verdict.mismatch]


def test_a_room_needs_a_record() -> None:
    with pytest.raises(ValueError, match="entries is empty"):
        judge([], {}, POLICY, 0.0)
