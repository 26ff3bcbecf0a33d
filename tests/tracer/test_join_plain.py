"""The short way says what the general way says, or nothing."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from support.rooms import D0, D1, INDEX_K, KEY, KEY2, KV, P0, P1, POLICY, Component, RoomBuilder

from pd_tracer_hooks.u64s import U64s
from pd_tracer_hooks.wire import (
    ComponentDigest,
    Coverage,
    Event,
    EventKind,
    Manifest,
    Observation,
    Owned,
    Stage,
)
from tracer.join.model import Entry, Verdict
from tracer.join.plain import judge_plain
from tracer.join.room import judge, judge_generally
from tracer.store.codec import encode_verdict

BODIES = [
    KV,
    INDEX_K,
    Component("kv", layers=(7, 3, 5), pages=9),
    Component("kv", layers=(0, 1), pages=9, coverage=Coverage.ends),
    Component("index_k", layers=(1,), pages=1),
    Component("state", layers=(0, 1), pages=0),
]


def held_against_each_other(
    entries: list[Entry], manifests: dict[tuple[str, str], Manifest], now: float
) -> bool:
    """Whether the short way had an answer; if so it was the general one, to the byte."""
    said = judge_plain(entries, manifests, POLICY, now)
    if said is None:
        return False
    general = judge_generally(entries, manifests, POLICY, now)
    assert said == general
    assert encode_verdict(said) == encode_verdict(general)
    assert judge(entries, manifests, POLICY, now) == general
    return True


def room(*, opened: bool, send: bool, receive: bool, **other: Any) -> RoomBuilder:
    built = RoomBuilder()
    if opened:
        built.opened(request="r-d", peer="P-alias", trace="t1", **other)
    if send:
        built.send(KV.part(), INDEX_K.part(), request="r-p", tokens=31, trace="t2", **other)
    if receive:
        built.receive(INDEX_K.part(), KV.part(), request="r-d", tokens=31, trace="t3", **other)
    return built


SIDES = [(o, s, r) for o, s, r in itertools.product([False, True], repeat=3) if s or r]
MANIFESTS = [[], [P0], [D0], [P0, D0], [P0, P1, D0, D1]]


@pytest.mark.parametrize("held", MANIFESTS, ids=lambda held: "+".join(w.id for w in held) or "none")
@pytest.mark.parametrize(("opened", "send", "receive"), SIDES)
def test_plain_rooms_go_the_short_way(opened: bool, send: bool, receive: bool, held: list[Any]) -> None:
    built = room(opened=opened, send=send, receive=receive)
    for worker in held:
        built.manifest(worker, KV.in_manifest(layers=range(4)), INDEX_K.in_manifest())
    for told in itertools.permutations(built.entries):
        assert held_against_each_other(list(told), built.manifests, 1010.0)
    verdict = judge(built.entries, built.manifests, POLICY, 1010.0).verdict
    assert verdict is (Verdict.match if send and receive else Verdict.pending)


@pytest.mark.parametrize("body", BODIES, ids=lambda body: f"{body.name}-{body.pages}-{body.coverage.value}")
def test_every_coverage_and_size_goes_the_short_way(body: Component) -> None:
    built = RoomBuilder().send(body.part()).receive(body.part())
    assert held_against_each_other(built.entries, {}, 1010.0)


def test_after_the_deadline_a_lonely_side_goes_the_general_way() -> None:
    built = room(opened=True, send=True, receive=False)
    (sent,) = [entry.received for entry in built.entries if isinstance(entry.record, Observation)]
    assert judge_plain(built.entries, {}, POLICY, sent + POLICY.send_deadline_s - 0.001) is not None
    assert judge_plain(built.entries, {}, POLICY, sent + POLICY.send_deadline_s) is None


def one_of(*values: Any) -> st.SearchStrategy[Any]:
    return st.sampled_from(values)


#: Fields of a part that may be off, one at a time.
part_changes = st.one_of(
    st.fixed_dictionaries({"signature": one_of("0" * 16)}),
    st.fixed_dictionaries({"pages": st.integers(0, 10)}),
    st.fixed_dictionaries({"k": st.integers(0, 9)}),
    st.fixed_dictionaries({"coverage": st.sampled_from(Coverage)}),
    st.fixed_dictionaries({"layers": st.lists(st.integers(0, 7), max_size=4)}),
    st.fixed_dictionaries({"runs": st.lists(st.tuples(st.integers(0, 9), st.integers(0, 10)), max_size=3)}),
    st.fixed_dictionaries({"cells": st.lists(st.integers(0, 30), min_size=3, max_size=3)}),
    st.fixed_dictionaries({"sums": st.lists(st.integers(0, 2**64 - 1), min_size=2, max_size=3).map(U64s.of)}),
    st.fixed_dictionaries({"start": st.integers(0, 2)}),
    st.fixed_dictionaries({"last_rows": st.none() | st.integers(0, 2)}),
    st.fixed_dictionaries({"owned": st.sampled_from(Owned)}),
    st.fixed_dictionaries({"last": st.booleans()}),
    st.fixed_dictionaries({"buckets": one_of(U64s(), U64s.of([1]))}),
    st.fixed_dictionaries({"name": one_of("kv", "index_k", "state", "")}),
)
record_changes = st.one_of(
    st.fixed_dictionaries({"keys": one_of([], [KEY2], [KEY, KEY2], [KEY, KEY])}),
    st.fixed_dictionaries({"seq": st.integers(0, 3)}),
    st.fixed_dictionaries({"request": one_of("", "r-d", "r-x")}),
    st.fixed_dictionaries({"peer": one_of("", "P", "a")}),
    st.fixed_dictionaries({"trace": one_of("", "t9")}),
)
look_changes = st.one_of(
    record_changes,
    st.fixed_dictionaries({"tokens": st.none() | st.integers(30, 32)}),
    st.fixed_dictionaries({"look": one_of(0, 1)}),
    st.fixed_dictionaries({"stage": st.sampled_from(Stage)}),
)


def changed_part(draw: st.DrawFn, part: ComponentDigest) -> ComponentDigest:
    return replace(part, **draw(part_changes)) if draw(st.integers(0, 5)) == 0 else part


def changed(draw: st.DrawFn, entry: Entry) -> Entry:
    record = entry.record
    if isinstance(record, Observation):
        record = replace(record, components=[changed_part(draw, part) for part in record.components])
        if draw(st.integers(0, 5)) == 0:
            record = replace(record, **draw(look_changes))
    elif isinstance(record, Event) and draw(st.integers(0, 3)) == 0:
        kind = st.fixed_dictionaries({"kind": st.sampled_from(EventKind)})
        record = replace(record, **draw(record_changes | kind))
    worker, received = entry.worker, entry.received
    if draw(st.integers(0, 9)) == 0:
        worker = draw(st.sampled_from([P0, P1, D0, D1]))
    if draw(st.integers(0, 3)) == 0:
        received = draw(st.integers(1000, 1004).map(float))
    return Entry(worker, received, record)


@st.composite
def nearly_plain(draw: st.DrawFn) -> tuple[list[Entry], dict[tuple[str, str], Manifest], float]:
    bodies = draw(st.lists(st.sampled_from(BODIES), min_size=1, max_size=3, unique_by=lambda body: body.name))
    opened, send, receive = draw(st.sampled_from(SIDES))
    sizes = st.fixed_dictionaries({"start": one_of(0, 1, 2), "last_rows": one_of(None, None, 3, 4)})
    tokens = one_of(None, None, 31, 32)
    sequence = {"seq": draw(st.integers(3, 4))} if draw(st.booleans()) else {}
    built = RoomBuilder()
    if opened:
        built.opened(request="r-d", **sequence)
    if send:
        parts = [replace(body.part(), **draw(sizes)) for body in bodies]
        built.send(*parts, request="r-p", tokens=draw(tokens))
    if receive:
        parts = [replace(body.part(), **draw(sizes)) for body in draw(st.permutations(bodies))]
        built.receive(*parts, request="r-d", tokens=draw(tokens))
    entries = [changed(draw, entry) for entry in built.entries]
    if draw(st.integers(0, 7)) == 0:
        entries.append(changed(draw, draw(st.sampled_from(entries))))
    for worker in draw(st.sampled_from(MANIFESTS)):
        listed = bodies if draw(st.integers(0, 3)) else draw(st.lists(st.sampled_from(BODIES), max_size=3))
        moved = bool(draw(st.integers(0, 3)))
        built.manifest(worker, *(body.in_manifest(moved=moved) for body in listed))
    return entries, built.manifests, draw(one_of(1003.0, 1182.0, 2000.0))


@settings(max_examples=1500, deadline=None)
@given(nearly_plain())
def test_the_short_way_never_says_anything_else(
    case: tuple[list[Entry], dict[tuple[str, str], Manifest], float],
) -> None:
    event("short way" if held_against_each_other(*case) else "general way")
