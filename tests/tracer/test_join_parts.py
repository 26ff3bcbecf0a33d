"""Parts of one side add up: chunks, layer ranges, page shards, repeats; and what does not add up."""

from __future__ import annotations

import dataclasses

import pytest
from support.rooms import KV, P0, P1, POLICY, Component, RoomBuilder, Run

from pd_tracer_hooks.digest.definition import final, hex64
from pd_tracer_hooks.u64s import U64s
from pd_tracer_hooks.wire import ComponentDigest, Coverage
from tracer.join import judge
from tracer.join.model import ComponentVerdict, RoomVerdict, Verdict
from tracer.join.parts import Part, add_up

ENDS = dataclasses.replace(KV, coverage=Coverage.ends)
ONE_LAYER = dataclasses.replace(KV, layers=(5,))

Rectangle = tuple[list[Run], list[int]]


def _sum(*parts: ComponentDigest, component: Component = KV) -> object:
    whole = add_up("prefill", [Part("p0", component.part(), None)])
    added = add_up("prefill", [Part("p0", part, None) for part in parts])
    assert added.problem is None
    return added.complete and added.sums == whole.sums and added.cells == whole.cells


@pytest.mark.parametrize(
    ("cuts", "complete"),
    [
        ([([(0, 8)], [0, 1, 2])], True),
        ([([(0, 3)], [0, 1, 2]), ([(3, 5)], [0, 1, 2])], True),
        ([([(3, 5)], [0, 1, 2]), ([(0, 3)], [0, 1, 2])], True),
        ([([(0, 8)], [0, 1]), ([(0, 8)], [2])], True),
        ([([(0, 8)], [2, 1]), ([(0, 8)], [0])], True),
        ([([(0, 2), (4, 2)], [0, 1, 2]), ([(2, 2), (6, 2)], [0, 1, 2])], True),
        ([([(0, 4)], [0, 1]), ([(4, 4)], [0, 1]), ([(0, 8)], [2])], True),
        ([([(0, 4)], [0, 1, 2]), ([(4, 4)], [0]), ([(4, 4)], [1, 2])], True),
        ([([(0, 8)], [0, 1, 2]), ([], [0, 1, 2])], True),
        ([([(0, 7)], [0, 1, 2])], False),
        ([([(0, 3)], [0, 1, 2]), ([(4, 4)], [0, 1, 2])], False),
        ([([(0, 8)], [0, 1]), ([(0, 7)], [2])], False),
        ([([(0, 4)], [0, 1]), ([(4, 4)], [1, 2])], False),
        ([([(0, 8)], [])], False),
        ([([], [0, 1, 2])], False),
    ],
)
def test_full_coverage_needs_every_page_of_every_layer(cuts: list[Rectangle], complete: bool) -> None:
    assert _sum(*(KV.part(runs, layers) for runs, layers in cuts)) is complete


@pytest.mark.parametrize(
    ("cuts", "complete"),
    [
        ([([(0, 8)], [0, 1, 2])], True),
        ([([(0, 2)], [0, 1, 2]), ([(6, 2)], [0, 1, 2])], True),
        ([([(0, 4)], [0, 1, 2]), ([(4, 4)], [0, 1, 2])], True),
        ([([(0, 6)], [0, 1, 2])], False),
        ([([(6, 2)], [0, 1, 2])], False),
        ([([(0, 1)], [0, 1, 2]), ([(6, 2)], [0, 1, 2])], False),
    ],
)
def test_coverage_at_the_ends_needs_head_and_tail(cuts: list[Rectangle], complete: bool) -> None:
    assert _sum(*(ENDS.part(runs, layers) for runs, layers in cuts), component=ENDS) is complete


def test_parts_that_differ_in_coverage_count_at_the_lesser() -> None:
    added = add_up("prefill", [Part("p0", KV.part([(0, 4)]), None), Part("p0", ENDS.part([(4, 4)]), None)])
    assert added.coverage is Coverage.ends
    assert added.complete
    assert added.problem is None


def test_nothing_is_complete_over_no_layers_too() -> None:
    empty = dataclasses.replace(KV, pages=0, layers=())
    added = add_up("prefill", [Part("p0", empty.part(), None)])
    assert added.complete
    assert added.cells == (0, 0, 0)


def test_the_same_part_twice_counts_once() -> None:
    assert _sum(KV.part([(0, 4)]), KV.part([(0, 4)]), KV.part([(4, 4)]))


def test_of_two_equal_parts_the_one_that_locates_better_stays() -> None:
    poor = dataclasses.replace(KV, layer_sums=False, buckets=False)
    for parts in ([KV.part(), poor.part()], [poor.part(), KV.part()]):
        added = add_up("prefill", [Part("p0", part, None) for part in parts])
        assert [part.digest for part in added.parts] == [KV.part()]


def _component(room: RoomBuilder) -> ComponentVerdict:
    verdict: RoomVerdict = judge(room.entries, room.manifests, POLICY, room.now)
    (component,) = verdict.components
    return component


@pytest.mark.parametrize(
    ("parts", "verdict", "words"),
    [
        (
            [KV.part(), KV.part(content="another prompt")],
            Verdict.ambiguous,
            "prefill workers p0 and p1 reported pages 0-7 of layers 0-2 more than once, with different sums",
        ),
        (
            [KV.part([(0, 5)]), KV.part([(4, 4)])],
            Verdict.ambiguous,
            "reported page 4 of layers 0-2 more than once",
        ),
        (
            [KV.part(layers=[0, 1]), KV.part(layers=[1, 2])],
            Verdict.ambiguous,
            "reported pages 0-7 of layer 1 more than once",
        ),
        (
            [KV.part([(0, 4)], pages=8), KV.part([(4, 4)], pages=9)],
            Verdict.ambiguous,
            "state 8 and 9 pages: they may be of several transfers",
        ),
        (
            [KV.part([(0, 4)], k=2), KV.part([(4, 4)], k=3)],
            Verdict.ambiguous,
            "state 2 and 3 pages in head and tail",
        ),
        (
            [KV.part(cells=[6, 6, 23])],
            Verdict.incomparable,
            "prefill worker p0 counts 23 cells in the body instead of 24",
        ),
        (
            [KV.part(runs=[(0, 8)], cells=[6, 7, 24])],
            Verdict.incomparable,
            "prefill worker p0 counts 7 cells in the tail instead of 6",
        ),
        (
            [KV.part(cells=[6, 6, 27]), ONE_LAYER.part(runs=[(8, 1)], layers=[0, 1, 2], cells=[0, 0, 3])],
            Verdict.incomparable,
            "names page 8 of 8",
        ),
        (
            [KV.part(sums=U64s.of([1, 2]))],
            Verdict.incomparable,
            "prefill worker p0 sent sums for other than head, tail and body",
        ),
        (
            [KV.part([(0, 4)]), KV.part([(4, 4)], signature="0" * 16)],
            Verdict.incomparable,
            "signatures differ",
        ),
    ],
)
def test_what_does_not_add_up_blames_nobody(
    parts: list[ComponentDigest], verdict: Verdict, words: str
) -> None:
    room = RoomBuilder().opened().receive(KV.part())
    for part, worker in zip(parts, (P0, P1), strict=False):
        room.send(part, worker=worker)
    component = _component(room)
    assert component.verdict is verdict
    assert words in component.reason
    assert not component.prefill.finals


def test_the_other_sides_parts_are_held_to_the_same() -> None:
    room = RoomBuilder().opened().send(KV.part()).receive(KV.part()).receive(KV.part(damage={(0, 0)}))
    component = _component(room)
    assert component.verdict is Verdict.ambiguous
    assert component.reason.startswith("decode worker d0 reported pages 0-7 of layers 0-2 more than once")


def test_finals_are_those_of_the_definition() -> None:
    part = KV.part()
    room = RoomBuilder().opened().send(KV.part([(0, 5)])).send(KV.part([(5, 3)])).receive(part)
    component = _component(room)
    expected = {
        name: hex64(final(value, cells))
        for name, value, cells in zip(("head", "tail", "body"), part.sums.values(), part.cells, strict=True)
    }
    assert component.prefill.finals == component.decode.finals == expected
    assert component.prefill.signature == KV.signature


def test_finals_leave_out_what_was_not_read() -> None:
    empty = dataclasses.replace(KV, pages=0)
    for component, names in ((ENDS, {"head", "tail"}), (empty, set())):
        room = RoomBuilder().opened().send(component.part()).receive(component.part())
        assert set(_component(room).prefill.finals) == names


def test_nothing_is_proportional_to_the_number_of_pages() -> None:
    """The largest transfer the wire allows, in two parts of made-up sums."""
    pages, k = 1 << 24, 4

    def half(start: int, ends: list[int], value: int) -> ComponentDigest:
        return ComponentDigest(
            name="kv",
            signature=KV.signature,
            pages=pages,
            k=k,
            coverage=Coverage.full,
            layers=[0, 1, 2],
            runs=[(start, pages // 2)],
            sums=U64s.of([value] * 3),
            cells=[*ends, 3 * (pages // 2)],
        )

    room = RoomBuilder().opened()
    room.send(half(0, [12, 0], 1)).send(half(pages // 2, [0, 12], 2))
    room.receive(half(0, [12, 0], 1)).receive(half(pages // 2, [0, 12], 3))
    component = _component(room)
    assert component.verdict is Verdict.mismatch
    assert component.reason == f"head, tail and body differ, pages 0-{pages - 1} of {pages}"
