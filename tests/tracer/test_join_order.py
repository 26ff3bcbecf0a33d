"""The order of arrival decides nothing, and neither do repeats."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from itertools import pairwise, permutations
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.rooms import D0, D1, INDEX_K, KEY, KEY2, KV, P0, P1, POLICY, Component, RoomBuilder

from pd_tracer_hooks.wire import Event
from tracer.join import judge
from tracer.join.model import Entry, Manifests, RoomVerdict, Verdict

OTHER = dataclasses.replace(KV, content="another prompt", pages=6)
LATER = 100_000.0

Build = Callable[[RoomBuilder], Any]

#: Rooms of at most seven records, so that every order can be tried. At most one decode worker each, or one
#: attempt: between two decode workers only arrival tells which attempt came first.
ROOMS: list[tuple[str, Build]] = [
    (
        "chunks, two components, a mismatch",
        lambda r: (
            r.opened(request="r")
            .event("started", P0)
            .send(KV.part([(0, 3)]))
            .send(KV.part([(3, 3)]))
            .send(KV.part([(6, 2)]), INDEX_K.part())
            .receive(KV.part(damage={(1, 5)}), INDEX_K.part(), request="r")
        ),
    ),
    (
        "pipeline and tensor ranks",
        lambda r: (
            r.opened()
            .opened(D1, [KEY2])
            .send(KV.part(layers=[0]), keys=[KEY, KEY2])
            .send(KV.part(layers=[1, 2]), keys=[KEY, KEY2], worker=P1)
            .receive(KV.part())
            .receive(KV.part(), worker=D1, keys=[KEY2])
        ),
    ),
    (
        "one key used twice",
        lambda r: (
            r.opened(request="r1")
            .send(KV.part())
            .receive(KV.part(damage={(0, 0)}), request="r1")
            .opened(request="r2")
            .send(OTHER.part())
            .receive(OTHER.part(), request="r2")
        ),
    ),
    (
        "one key used twice, sent once",
        lambda r: (
            r.opened().send(KV.part()).receive(KV.part()).opened().receive(OTHER.part()).event("freed", D0)
        ),
    ),
    (
        "retracted and opened again",
        lambda r: (
            r.opened(request="r")
            .send(KV.part())
            .receive(KV.part(), request="r")
            .event("retracted", D0)
            .opened(keys=[KEY2], request="r")
            .send(OTHER.part(), keys=[KEY2])
            .receive(OTHER.part(), keys=[KEY2], request="r")
        ),
    ),
    (
        "no keys",
        lambda r: (
            r.opened(keys=[])
            .send(KV.part([(0, 4)]), keys=[])
            .send(KV.part([(4, 4)]), keys=[])
            .receive(KV.part(), keys=[])
        ),
    ),
    (
        "prefill learned its key late",
        lambda r: (
            r.opened()
            .send(KV.part([(0, 4)]), keys=[], request="p")
            .send(KV.part([(4, 4)]), request="p")
            .receive(KV.part())
        ),
    ),
    (
        "aborted, failed, and a receive in part",
        lambda r: (
            r.opened()
            .send(KV.part())
            .receive(KV.part([(0, 4)]))
            .event("aborted", P0, reason="a")
            .event("failed", D0, reason="b")
            .event("failed", P0, reason="c")
        ),
    ),
    (
        "parts that contradict each other",
        lambda r: (
            r.opened()
            .send(KV.part([(0, 4)]))
            .send(KV.part([(3, 5)], content="other"))
            .send(KV.part([(0, 4)], pages=9), worker=P1)
            .receive(KV.part())
        ),
    ),
    (
        "prefill alone",
        lambda r: r.event("started", P0).send(KV.part([(0, 4)])).send(KV.part([(4, 4)])).event("freed", P0),
    ),
]


def _final(entries: Sequence[Entry], manifests: Manifests) -> RoomVerdict:
    return judge(entries, manifests, POLICY, LATER)


def _without_arrival(said: RoomVerdict) -> Any:
    """What must be equal whenever the records arrived: all but the delay, and which clock a limit names."""
    return (
        said.verdict,
        said.cause,
        said.settled,
        [(c.component, c.verdict, c.where, c.prefill, c.decode, c.layers) for c in said.components],
        [
            (
                a.number,
                a.verdict,
                [(t.key, t.verdict, t.prefill_workers, t.decode_workers) for t in a.transfers],
            )
            for a in said.attempts
        ],
    )


@pytest.mark.parametrize("build", [row[1] for row in ROOMS], ids=[row[0] for row in ROOMS])
def test_every_order_of_the_entries_gives_the_same_verdict(build: Build) -> None:
    room = RoomBuilder()
    build(room)
    expected = _final(room.entries, room.manifests)
    for entries in permutations(room.entries):
        assert _final(entries, room.manifests) == expected


@pytest.mark.parametrize("build", [row[1] for row in ROOMS], ids=[row[0] for row in ROOMS])
def test_every_order_of_arrival_ends_with_the_same_verdict(build: Build) -> None:
    room = RoomBuilder()
    build(room)
    expected = _without_arrival(_final(room.entries, room.manifests))
    for order in permutations(room.entries):
        arrived = [dataclasses.replace(e, received=1000.0 + i) for i, e in enumerate(order)]
        assert _without_arrival(_final(arrived, room.manifests)) == expected


@pytest.mark.parametrize("build", [row[1] for row in ROOMS], ids=[row[0] for row in ROOMS])
def test_a_repeated_report_changes_nothing(build: Build) -> None:
    room = RoomBuilder()
    build(room)
    expected = _final(room.entries, room.manifests)
    again = [dataclasses.replace(e, received=e.received + 50.0) for e in room.entries]
    assert _final([*again, *room.entries], room.manifests) == expected


def test_of_two_records_with_one_identity_the_first_to_arrive_stays() -> None:
    room = RoomBuilder().opened().send(KV.part()).receive(KV.part())
    conflicting = RoomBuilder(now=2000.0).receive(KV.part(damage={(0, 0)}), seq=2).entries
    for entries in ([*room.entries, *conflicting], [*conflicting, *room.entries]):
        assert _final(entries, {}).verdict is Verdict.match
    at_once = [dataclasses.replace(e, received=room.entries[-1].received) for e in conflicting]
    one, other = _final([*room.entries, *at_once], {}), _final([*at_once, *room.entries], {})
    assert one == other


def test_events_of_one_seq_and_other_kind_are_two_records() -> None:
    room = RoomBuilder().opened(seq=1)
    room.event("aborted", D0, seq=1)
    assert {e.record.kind for e in room.entries if isinstance(e.record, Event)} == {"opened", "aborted"}
    assert _final(room.entries, {}).verdict is Verdict.aborted


@settings(max_examples=80, deadline=None)
@given(data=st.data())
def test_any_split_into_parts_is_the_same_transfer(data: st.DataObject) -> None:
    """Chunks, pipeline ranks and repeats on either side: equal bytes match, one flipped bit does not."""
    pages = data.draw(st.integers(1, 12))
    layers = tuple(range(data.draw(st.integers(1, 4))))
    whole = Component(pages=pages, layers=layers, k=data.draw(st.integers(0, 3)))
    cell = (data.draw(st.sampled_from(layers)), data.draw(st.integers(0, pages - 1)))
    damage = {cell} if data.draw(st.booleans()) else set()
    room = RoomBuilder().opened()
    for side in ("send", "receive"):
        wounds = damage if side == "receive" else set()
        layer_cut = data.draw(st.integers(0, len(layers)))
        for group in (layers[:layer_cut], layers[layer_cut:]):
            cuts = sorted({0, pages, *data.draw(st.lists(st.integers(0, pages), max_size=3))})
            for low, high in pairwise(cuts):
                if group:
                    part = whole.part([(low, high - low)], group, damage=wounds)
                    for _ in range(data.draw(st.integers(1, 2))):
                        getattr(room, side)(part)
    entries = data.draw(st.permutations(room.entries))
    said = judge(entries, {}, POLICY, room.now)
    assert said.settled
    assert said.verdict is (Verdict.mismatch if damage else Verdict.match)
    if damage:
        assert said.components[0].where is not None
        assert said.components[0].where.layers == [cell[0]]
        assert said.components[0].where.page_runs == [(cell[1], 1)]
