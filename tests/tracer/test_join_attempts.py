"""Rooms that are used again: which record belongs to which attempt, and what stays open."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import pytest
from support.rooms import D0, D1, INDEX_K, KEY, KEY2, KEY3, KV, P0, P1, POLICY, RoomBuilder

from pd_tracer_hooks.wire import Side, Stage
from tracer.join import judge
from tracer.join.model import RoomVerdict, Verdict, WorkerRef

OTHER = dataclasses.replace(KV, content="another prompt", pages=6)
BAD = {"damage": {(1, 3)}}

OTHER_PREFILL = WorkerRef("q0", "boot-q0", Side.prefill, "Q")
OTHER_DECODE = WorkerRef("e0", "boot-e0", Side.decode, "E")
D0_AGAIN = WorkerRef("d0", "boot-d0-2", Side.decode, "D")
P0_AGAIN = WorkerRef("p0", "boot-p0-2", Side.prefill, "P")

Build = Callable[[RoomBuilder], Any]


def judged(room: RoomBuilder, now: float | None = None) -> RoomVerdict:
    return judge(room.entries, room.manifests, POLICY, room.now if now is None else now)


def attempts(room: RoomBuilder, now: float | None = None) -> list[dict[str, str]]:
    """Verdict by key, an attempt a line."""
    said = judged(room, now)
    assert [attempt.number for attempt in said.attempts] == list(range(1, len(said.attempts) + 1))
    return [{t.key: t.verdict.value for t in attempt.transfers} for attempt in said.attempts]


#: (name, records, verdicts by key of each attempt).
TOLD_APART: list[tuple[str, Build, list[dict[str, str]]]] = [
    (
        "two decode ranks of one server: one attempt",
        lambda r: (
            r.opened()
            .opened(D1, [KEY2])
            .send(KV.part(), keys=[KEY, KEY2])
            .receive(KV.part())
            .receive(KV.part(**BAD), worker=D1, keys=[KEY2])
        ),
        [{KEY: "match", KEY2: "mismatch"}],
    ),
    (
        "the same with sends of their own",
        lambda r: (
            r.opened()
            .opened(D1, [KEY2])
            .send(KV.part())
            .send(OTHER.part(), keys=[KEY2], worker=P1)
            .receive(KV.part())
            .receive(OTHER.part(), worker=D1, keys=[KEY2])
        ),
        [{KEY: "match", KEY2: "match"}],
    ),
    (
        "two requests with keys of their own",
        lambda r: (
            r.opened(request="r1")
            .send(KV.part())
            .receive(KV.part(**BAD), request="r1")
            .opened(keys=[KEY2], request="r2")
            .send(OTHER.part(), keys=[KEY2])
            .receive(OTHER.part(), keys=[KEY2], request="r2")
        ),
        [{KEY: "mismatch"}, {KEY2: "match"}],
    ),
    (
        "two requests at once, with keys of their own",
        lambda r: (
            r.opened(request="r1")
            .opened(keys=[KEY2], request="r2")
            .send(OTHER.part(), keys=[KEY2])
            .send(KV.part())
            .receive(KV.part(), request="r1")
            .receive(OTHER.part(), keys=[KEY2], request="r2")
        ),
        [{KEY: "match"}, {KEY2: "match"}],
    ),
    (
        "two decode servers",
        lambda r: (
            r.opened(request="r1")
            .send(KV.part())
            .receive(KV.part(), request="r1")
            .opened(OTHER_DECODE, [KEY2], request="r1")
            .send(KV.part(), keys=[KEY2])
            .receive(KV.part(), keys=[KEY2], worker=OTHER_DECODE, request="r1")
        ),
        [{KEY: "match"}, {KEY2: "match"}],
    ),
    (
        "retracted, and opened again with another key for the same request",
        lambda r: (
            r.opened(request="r1")
            .send(KV.part())
            .receive(KV.part(), request="r1")
            .event("retracted", D0, request="r1")
            .opened(keys=[KEY2], request="r1")
            .send(OTHER.part(), keys=[KEY2])
            .receive(OTHER.part(), keys=[KEY2], request="r1")
        ),
        [{KEY: "match"}, {KEY2: "match"}],
    ),
    (
        "two keys of one request on one worker, neither over when the other began: one attempt",
        lambda r: (
            r.opened(request="r1")
            .opened(keys=[KEY2], request="r1")
            .send(KV.part(), keys=[KEY, KEY2])
            .receive(KV.part(), request="r1")
            .receive(KV.part(), keys=[KEY2], request="r1")
        ),
        [{KEY: "match", KEY2: "match"}],
    ),
    (
        "the key comes back with the same pages",
        lambda r: (
            r.opened(request="r1")
            .send(KV.part())
            .receive(KV.part(**BAD), request="r1")
            .opened(request="r2")
            .send(OTHER.part())
            .receive(OTHER.part(), request="r2")
        ),
        [{KEY: "mismatch"}, {KEY: "match"}],
    ),
    (
        "the key comes back for the same request",
        lambda r: (
            r.opened(request="r1")
            .send(KV.part())
            .receive(KV.part(), request="r1")
            .opened(request="r1")
            .send(OTHER.part())
            .receive(OTHER.part(**BAD), request="r1")
        ),
        [{KEY: "match"}, {KEY: "mismatch"}],
    ),
    (
        "the key comes back, and requests are unknown",
        lambda r: (
            r.opened().send(KV.part()).receive(KV.part()).opened().send(OTHER.part()).receive(OTHER.part())
        ),
        [{KEY: "match"}, {KEY: "match"}],
    ),
    (
        "the key comes back twice, chunked, from two prefill ranks",
        lambda r: [
            r.opened()
            .send(c.part([(0, 2)], [0, 1]))
            .send(c.part([(0, 2)], [2]), worker=P1)
            .send(c.part([(2, c.pages - 2)], [0, 1]), INDEX_K.part())
            .send(c.part([(2, c.pages - 2)], [2]), worker=P1)
            .receive(c.part(), INDEX_K.part())
            for c in (KV, OTHER, dataclasses.replace(KV, content="third"))
        ],
        [{KEY: "match"}, {KEY: "match"}, {KEY: "match"}],
    ),
    (
        "the key comes back on two decode ranks, each opening twice",
        lambda r: [
            r.opened(D0, [KEY], request="r1")
            .opened(D1, [KEY2], request="r1")
            .send(c.part(), keys=[KEY, KEY2])
            .receive(c.part(), request="r1")
            .receive(c.part(), worker=D1, keys=[KEY2], request="r1")
            for c in (KV, OTHER)
        ],
        [{KEY: "match", KEY2: "match"}, {KEY: "match", KEY2: "match"}],
    ),
    (
        "the first use of the key held everything, so one send is enough",
        lambda r: r.opened().event("nothing_transferred", D0).opened().send(KV.part()).receive(KV.part()),
        [{KEY: "nothing_transferred"}, {KEY: "match"}],
    ),
    (
        "the first use broke off after a chunk",
        lambda r: (
            r.opened()
            .send(KV.part([(0, 4)]))
            .event("aborted", D0)
            .opened()
            .send(OTHER.part([(0, 4)]))
            .send(OTHER.part([(4, 2)]))
            .receive(OTHER.part())
        ),
        [{KEY: "aborted"}, {KEY: "match"}],
    ),
    (
        "prefill's own words go to the attempt they speak of",
        lambda r: (
            r.opened()
            .event("started", P0)
            .send(KV.part([(0, 4)]))
            .event("failed", P0)
            .opened()
            .event("started", P0)
            .send(OTHER.part())
            .receive(OTHER.part())
        ),
        [{KEY: "failed"}, {KEY: "match"}],
    ),
    (
        "prefill was restarted between two uses of a key",
        lambda r: (
            r.opened()
            .send(KV.part())
            .receive(KV.part())
            .opened()
            .send(OTHER.part(), worker=P0_AGAIN)
            .receive(OTHER.part())
        ),
        [{KEY: "match"}, {KEY: "match"}],
    ),
    (
        "decode was restarted between two uses of a key",
        lambda r: (
            r.opened()
            .send(KV.part())
            .receive(KV.part())
            .opened(D0_AGAIN)
            .send(OTHER.part())
            .receive(OTHER.part(), worker=D0_AGAIN)
        ),
        [{KEY: "match"}, {KEY: "match"}],
    ),
    (
        "no opened at all",
        lambda r: r.send(KV.part()).receive(KV.part()),
        [{KEY: "match"}],
    ),
    (
        "the first opened was lost, the second was not",
        lambda r: r.receive(KV.part()).send(KV.part()).opened().send(OTHER.part()).receive(OTHER.part()),
        [{KEY: "match"}, {KEY: "match"}],
    ),
    (
        "allocate comes before its opened",
        lambda r: r.look(Stage.allocate, KV.part(), worker=D0).opened().send(KV.part()).receive(KV.part()),
        [{KEY: "match"}],
    ),
    (
        "neither side knows a key",
        lambda r: (
            r.opened(keys=[])
            .send(KV.part([(0, 4)]), keys=[])
            .send(KV.part([(4, 4)]), keys=[])
            .receive(KV.part(), keys=[])
        ),
        [{"": "match"}],
    ),
    (
        "prefill knows no key, and one transfer is open",
        lambda r: r.opened().send(KV.part(), keys=[]).receive(KV.part()),
        [{KEY: "match"}],
    ),
    (
        "prefill learned the key after its first chunk",
        lambda r: (
            r.opened(request="d1")
            .opened(keys=[KEY2], request="d2")
            .send(KV.part([(0, 4)]), keys=[], request="p1")
            .send(OTHER.part([(0, 4)]), keys=[], request="p2")
            .send(KV.part([(4, 4)]), request="p1")
            .send(OTHER.part([(4, 2)]), keys=[KEY2], request="p2")
            .receive(KV.part(), request="d1")
            .receive(OTHER.part(), keys=[KEY2], request="d2")
        ),
        [{KEY: "match"}, {KEY2: "match"}],
    ),
    (
        "prefill learned both keys of a fan-out after its first chunk",
        lambda r: (
            r.opened()
            .opened(D1, [KEY2])
            .send(KV.part([(0, 4)]), keys=[])
            .send(KV.part([(4, 4)]), keys=[KEY, KEY2])
            .receive(KV.part())
            .receive(KV.part(), worker=D1, keys=[KEY2])
        ),
        [{KEY: "match", KEY2: "match"}],
    ),
    (
        "prefill knows no key, one transfer after another",
        lambda r: (
            r.opened()
            .send(KV.part(), keys=[])
            .receive(KV.part())
            .opened(keys=[KEY2])
            .send(OTHER.part(), keys=[])
            .receive(OTHER.part(), keys=[KEY2])
        ),
        [{KEY: "match"}, {KEY2: "match"}],
    ),
    (
        "decode knows no key, prefill one",
        lambda r: r.opened(keys=[]).send(KV.part()).receive(KV.part(), keys=[]),
        [{KEY: "match"}],
    ),
    (
        "a receive forgot the key that its opened had",
        lambda r: r.opened().send(KV.part()).receive(KV.part(), keys=[]),
        [{KEY: "match"}],
    ),
    (
        "decode's key came only with the receive",
        lambda r: r.opened(keys=[], request="r").send(KV.part()).receive(KV.part(), request="r"),
        [{KEY: "match"}],
    ),
    (
        "an event without a key is of the worker's latest opening",
        lambda r: (
            r.opened(request="r1")
            .send(KV.part())
            .receive(KV.part(), request="r1")
            .opened(keys=[KEY2], request="r2")
            .event("failed", D0, keys=[])
        ),
        [{KEY: "match"}, {KEY2: "failed"}],
    ),
    (
        "an event without a key covers all that its request opened",
        lambda r: (
            r.opened(request="r1")
            .opened(keys=[KEY2], request="r1")
            .opened(keys=[KEY3], request="r2")
            .event("aborted", D0, keys=[], request="r1")
            .event("failed", D0, keys=[], request="r2")
        ),
        [{KEY: "aborted", KEY2: "aborted"}, {KEY3: "failed"}],
    ),
    (
        "an event without a key from prefill is of the request it names",
        lambda r: (
            r.opened(request="d1")
            .send(KV.part([(0, 4)]), request="p1")
            .opened(keys=[KEY2], request="d2")
            .send(OTHER.part(), keys=[KEY2], request="p2")
            .event("failed", P0, keys=[], request="p1")
            .receive(OTHER.part(), keys=[KEY2], request="d2")
        ),
        [{KEY: "failed"}, {KEY2: "match"}],
    ),
    (
        "an event without a key from a rank that opened nothing is of its server's latest attempt",
        lambda r: r.opened().send(KV.part()).event("aborted", D1, keys=[]),
        [{KEY: "aborted"}],
    ),
    (
        "only prefill speaks, for two requests",
        lambda r: r.send(KV.part(), request="p1").send(OTHER.part(), keys=[KEY2], request="p2"),
        [{KEY: "pending"}, {KEY2: "pending"}],
    ),
    (
        "only prefill speaks, of two ranks, and started without knowing the request",
        lambda r: (
            r.event("started", P0)
            .send(KV.part(), keys=[KEY, KEY2], request="p1")
            .event("started", P0, keys=[KEY2])
        ),
        [{KEY: "pending", KEY2: "pending"}],
    ),
    (
        "a key named twice in one record",
        lambda r: (
            r.opened(keys=[KEY, KEY]).send(KV.part(), keys=[KEY, KEY]).receive(KV.part(), keys=[KEY, KEY])
        ),
        [{KEY: "match"}],
    ),
    (
        "only prefill speaks, without keys",
        lambda r: r.send(KV.part(), keys=[], request="p1").send(OTHER.part(), keys=[], request="p2"),
        [{"": "pending"}, {"": "pending"}],
    ),
    (
        "prefill retracted and sent everything again",
        lambda r: (
            r.opened()
            .send(KV.part([(0, 4)], content="first run"))
            .event("retracted", P0)
            .send(KV.part([(0, 6)]))
            .send(KV.part([(6, 2)]))
            .receive(KV.part())
        ),
        [{KEY: "match"}],
    ),
    (
        "prefill retracted after it had sent, and that was that",
        lambda r: r.opened().send(KV.part()).event("retracted", P0).receive(KV.part()),
        [{KEY: "match"}],
    ),
]


@pytest.mark.parametrize(
    ("build", "expected"), [row[1:] for row in TOLD_APART], ids=[r[0] for r in TOLD_APART]
)
def test_told_apart(build: Build, expected: list[dict[str, str]]) -> None:
    room = RoomBuilder()
    build(room)
    assert attempts(room) == expected
    assert judged(room).verdict.value in expected[-1].values()


#: Rooms in which it cannot be told what was sent for whom. Nobody is blamed, now or later.
NOT_TOLD: list[tuple[str, Build]] = [
    (
        "two ranks are open, the send names no key",
        lambda r: (
            r.opened()
            .opened(D1, [KEY2])
            .send(KV.part(), keys=[])
            .receive(KV.part(**BAD))
            .receive(KV.part(), worker=D1, keys=[KEY2])
        ),
    ),
    (
        "two requests at once, sends without keys",
        lambda r: (
            r.opened(request="r1")
            .opened(keys=[KEY2], request="r2")
            .send(KV.part(), keys=[])
            .send(OTHER.part(), keys=[])
            .receive(KV.part(), request="r1")
            .receive(OTHER.part(), keys=[KEY2], request="r2")
        ),
    ),
    (
        "the same key twice at once",
        lambda r: (
            r.opened(request="r1")
            .opened(request="r2")
            .send(KV.part())
            .send(OTHER.part())
            .receive(OTHER.part(), request="r2")
            .receive(KV.part(), request="r1")
        ),
    ),
    (
        "the key was used twice, sent once",
        lambda r: r.opened().receive(KV.part()).opened().send(OTHER.part()).receive(OTHER.part()),
    ),
    (
        "the key was used twice, sent three times",
        lambda r: (
            r.opened()
            .send(KV.part())
            .receive(KV.part())
            .opened()
            .send(OTHER.part())
            .send(KV.part())
            .receive(KV.part())
        ),
    ),
    (
        "one prefill rank sent twice, the other once",
        lambda r: (
            r.opened()
            .send(KV.part(layers=[0, 1]))
            .send(KV.part(layers=[2]), worker=P1)
            .receive(KV.part())
            .opened()
            .send(KV.part(layers=[0, 1]))
            .receive(KV.part(**BAD))
        ),
    ),
    (
        "decode knows no key, prefill two",
        lambda r: (
            r.opened(keys=[]).send(KV.part()).send(OTHER.part(), keys=[KEY2]).receive(KV.part(), keys=[])
        ),
    ),
    (
        "two receives under one key, one opened lost",
        lambda r: r.opened().send(KV.part()).receive(KV.part()).receive(OTHER.part()),
    ),
]


@pytest.mark.parametrize("build", [row[1] for row in NOT_TOLD], ids=[row[0] for row in NOT_TOLD])
def test_not_told_apart(build: Build) -> None:
    room = RoomBuilder()
    build(room)
    early = {verdict for attempt in attempts(room) for verdict in attempt.values()}
    assert early <= {"ambiguous", "pending"}
    late = judged(room, room.now + 10_000.0)
    assert {verdict for attempt in attempts(room, room.now + 10_000.0) for verdict in attempt.values()} == {
        "ambiguous"
    }
    assert (late.verdict, late.settled, late.deadline) == (Verdict.ambiguous, True, None)
    assert late.reason


def test_an_attempt_that_is_clear_is_judged_beside_a_send_that_is_not() -> None:
    """Both transfers have what their keys name; a send too many, without a key, takes nothing back."""
    room = RoomBuilder().opened(request="r1").opened(keys=[KEY2], request="r2")
    room.send(KV.part()).send(OTHER.part(), keys=[KEY2], worker=P1).send(
        KV.part(), keys=[], worker=OTHER_PREFILL
    )
    room.receive(KV.part(), request="r1").receive(OTHER.part(**BAD), keys=[KEY2], request="r2")
    assert attempts(room) == [{KEY: "match"}, {KEY2: "mismatch"}]


def test_the_latest_attempt_speaks_for_the_room() -> None:
    room = RoomBuilder().opened(request="r1").send(KV.part()).receive(KV.part(**BAD), request="r1")
    room.opened(keys=[KEY2], request="r2")
    said = judged(room)
    assert (said.verdict, said.settled) == (Verdict.pending, False)
    room.send(KV.part(), keys=[KEY2]).receive(KV.part(), keys=[KEY2], request="r2")
    said = judged(room)
    assert (said.verdict, said.settled) == (Verdict.match, True)
    assert said.reason == "kv: equal in full (8 pages x 3 layers) (attempt 2, after 1 mismatch)"


def test_attempts_follow_the_workers_own_count_when_batches_overtake_each_other() -> None:
    room = RoomBuilder().opened(request="r1").send(KV.part()).receive(KV.part(**BAD), request="r1")
    room.opened(keys=[KEY3], request="r2").send(OTHER.part(), keys=[KEY3])
    room.receive(OTHER.part(), keys=[KEY3], request="r2")
    first = [entry for entry in room.entries if KEY in entry.record.keys]
    second = [entry for entry in room.entries if KEY3 in entry.record.keys]
    late = [dataclasses.replace(entry, received=entry.received + 100.0) for entry in first]
    said = judge([*second, *late], {}, POLICY, room.now + 200.0)
    assert [attempt.transfers[0].key for attempt in said.attempts] == [KEY, KEY3]


def test_sides_that_compute_different_keys_are_told_so() -> None:
    room = RoomBuilder().opened().send(KV.part(), keys=[KEY2]).receive(KV.part())
    said = judged(room, room.now + 10_000.0)
    assert {attempt.verdict for attempt in said.attempts} == {Verdict.missing_decode, Verdict.missing_prefill}
    assert "prefill and decode name different transfer keys" in said.reason


def test_a_reason_stays_short_however_often_a_room_was_used() -> None:
    room = RoomBuilder()
    for number in range(20):
        key = [f"{number:016x}"]
        room.opened(keys=key, request=f"r{number}").send(KV.part(), keys=key)
        if number % 2:
            room.receive(KV.part(**BAD), keys=key, request=f"r{number}")
        else:
            room.event("failed", D0, keys=key)
    room.opened(keys=[KEY], request="last").send(KV.part()).receive(KV.part(), request="last")
    assert judged(room).reason == (
        "kv: equal in full (8 pages x 3 layers) (attempt 21, after 10 mismatch and 10 failed)"
    )


def test_a_reason_stays_short_however_many_ranks_failed() -> None:
    room = RoomBuilder()
    for number in range(12):
        worker = WorkerRef(f"d{number}", "boot", Side.decode, "D")
        room.opened(worker, [f"{number:016x}"]).event("failed", worker, [f"{number:016x}"], reason="x" * 100)
    assert judged(room).verdict is Verdict.failed
    assert judged(room).reason.endswith("; and 6 more")
