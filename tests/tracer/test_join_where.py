"""Where two sides differ: regions, layers and pages, as closely as what they sent can tell."""

from __future__ import annotations

import dataclasses

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.rooms import KV, POLICY, Component, RoomBuilder

from pd_tracer_hooks.wire import Coverage
from tracer.join import judge, wording
from tracer.join.model import ComponentVerdict, Verdict, Where

SHORT = dataclasses.replace(KV, pages=12, k=3)
LONG = dataclasses.replace(KV, pages=200, k=4, layers=(3, 7))
ENDS = dataclasses.replace(SHORT, coverage=Coverage.ends)
NO_BUCKETS = dataclasses.replace(SHORT, buckets=False)
NO_LAYERS = dataclasses.replace(SHORT, layer_sums=False)

Cells = set[tuple[int, int]]


def compared(component: Component, damage: Cells, received_as: Component | None = None) -> ComponentVerdict:
    room = RoomBuilder().opened().send(component.part())
    room.receive((received_as or component).part(damage=damage))
    (verdict,) = judge(room.entries, {}, POLICY, room.now).components
    assert verdict.verdict is Verdict.mismatch
    return verdict


def where(component: Component, damage: Cells, received_as: Component | None = None) -> Where:
    found = compared(component, damage, received_as).where
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("component", "damage", "regions", "layers", "runs"),
    [
        (SHORT, {(1, 0)}, ["head", "body"], [1], [(0, 1)]),
        (SHORT, {(1, 11)}, ["tail", "body"], [1], [(11, 1)]),
        (SHORT, {(0, 5), (2, 7)}, ["body"], [0, 2], [(5, 1), (7, 1)]),
        (SHORT, {(0, 5), (2, 6)}, ["body"], [0, 2], [(5, 2)]),
        (SHORT, {(0, 0), (1, 5), (2, 11)}, ["head", "tail", "body"], [0, 1, 2], [(0, 1), (5, 1), (11, 1)]),
        # 200 pages in 64 buckets: page 100 is in bucket 32, pages 100 to 102.
        (LONG, {(7, 100)}, ["body"], [7], [(100, 3)]),
        # Bucket 63 is pages 196 to 199, which are the tail: equal tails take it out of question.
        (LONG, {(7, 195)}, ["body"], [7], [(193, 3)]),
        (LONG, {(7, 199)}, ["tail", "body"], [7], [(196, 4)]),
        # Bucket 1 is pages 3 to 5, and page 3 is of the head.
        (LONG, {(3, 4)}, ["body"], [3], [(4, 2)]),
        (ENDS, {(1, 2)}, ["head"], [1], [(0, 3)]),
        (ENDS, {(1, 2), (2, 9)}, ["head", "tail"], [1, 2], [(0, 3), (9, 3)]),
        (NO_BUCKETS, {(1, 5)}, ["body"], [1], [(3, 6)]),
        (NO_BUCKETS, {(1, 0)}, ["head", "body"], [1], [(0, 9)]),
        (NO_BUCKETS, {(1, 0), (1, 11)}, ["head", "tail", "body"], [1], [(0, 12)]),
        (NO_LAYERS, {(1, 5)}, ["body"], [], [(5, 1)]),
    ],
)
def test_where(
    component: Component, damage: Cells, regions: list[str], layers: list[int], runs: list[tuple[int, int]]
) -> None:
    found = where(component, damage)
    assert found.regions == regions
    assert found.layers == layers
    assert found.page_runs == runs


@pytest.mark.parametrize(
    ("component", "damage", "reason"),
    [
        (SHORT, {(1, 11)}, "tail differs in layer 1, page 11 of 12"),
        (SHORT, {(1, 5), (1, 11)}, "tail and body differ in layer 1, pages 5, 11 of 12"),
        (SHORT, {(0, 0), (2, 11)}, "head and tail differ in layers 0, 2, pages 0, 11 of 12"),
        (NO_LAYERS, {(1, 5)}, "body differs, page 5 of 12"),
        (LONG, {(7, 199)}, "tail differs in layer 7, pages 196-199 of 200"),
    ],
)
def test_the_sentence(component: Component, damage: Cells, reason: str) -> None:
    assert compared(component, damage).reason == reason


def test_damage_in_the_middle_is_not_seen_at_the_ends() -> None:
    room = RoomBuilder().opened().send(ENDS.part()).receive(ENDS.part(damage={(1, 5)}))
    (verdict,) = judge(room.entries, {}, POLICY, room.now).components
    assert (verdict.verdict, verdict.coverage) == (Verdict.match, Coverage.ends)
    assert "pages 3-8 not read" in verdict.reason


def test_head_and_tail_that_overlap() -> None:
    tiny = dataclasses.replace(KV, pages=3, k=2)
    assert where(tiny, {(0, 1)}).page_runs == [(1, 1)]
    ends = dataclasses.replace(tiny, coverage=Coverage.ends)
    assert where(ends, {(0, 1)}).page_runs == [(0, 3)]
    # Page 0 is in the head alone, and the equal tail clears pages 1 and 2.
    assert where(ends, {(0, 0)}).page_runs == [(0, 1)]


@pytest.mark.parametrize("poorer", [NO_BUCKETS, NO_LAYERS, ENDS])
def test_the_poorer_side_limits_what_can_be_said(poorer: Component) -> None:
    damage = {(1, 1)}
    here, there = where(SHORT, damage, poorer), where(poorer, damage, SHORT)
    assert here == there == where(poorer, damage)


def test_sums_of_chunks_and_layer_ranges_are_located_like_the_whole() -> None:
    room = RoomBuilder().opened()
    for layers in ([0, 1], [2]):
        room.send(SHORT.part([(0, 5)], layers)).send(SHORT.part([(5, 7)], layers))
    room.receive(SHORT.part([(6, 6)], damage={(2, 8)})).receive(SHORT.part([(0, 6)]))
    (verdict,) = judge(room.entries, {}, POLICY, room.now).components
    assert verdict.where == where(SHORT, {(2, 8)})


def test_one_chunk_without_row_sums_or_buckets() -> None:
    bare = dataclasses.replace(SHORT, layer_sums=False, buckets=False)
    room = RoomBuilder().opened().send(SHORT.part([(0, 5)])).send(bare.part([(5, 7)]))
    room.receive(SHORT.part(damage={(2, 6)}))
    (verdict,) = judge(room.entries, {}, POLICY, room.now).components
    assert verdict.where == Where(regions=["body"], layers=[], page_runs=[(3, 6)])


@settings(max_examples=60, deadline=None)
@given(
    pages=st.integers(1, 90),
    k=st.integers(0, 4),
    full=st.booleans(),
    buckets=st.booleans(),
    layer_sums=st.booleans(),
    data=st.data(),
)
def test_the_damage_is_inside_what_is_named(
    pages: int, k: int, full: bool, buckets: bool, layer_sums: bool, data: st.DataObject
) -> None:
    component = Component(
        pages=pages,
        k=k,
        layers=(0, 4),
        coverage=Coverage.full if full else Coverage.ends,
        buckets=buckets,
        layer_sums=layer_sums,
    )
    cells = st.tuples(st.sampled_from([0, 4]), st.integers(0, pages - 1))
    damage = data.draw(st.sets(cells, min_size=1, max_size=3))
    room = RoomBuilder().opened().send(component.part()).receive(component.part(damage=damage))
    (verdict,) = judge(room.entries, {}, POLICY, room.now).components
    seen = {(la, p) for la, p in damage if full or p < k or p >= pages - k}
    assert (verdict.verdict is Verdict.mismatch) == bool(seen)
    if verdict.where is not None:
        named = {p for first, count in verdict.where.page_runs for p in range(first, first + count)}
        assert named >= {p for _, p in seen}
        assert verdict.where.layers == (sorted({la for la, _ in seen}) if layer_sums else [])


@pytest.mark.parametrize(
    ("said", "text"),
    [
        (wording.pages_text([(3, 4)]), "page 3"),
        (wording.pages_text([(3, 5)]), "pages 3-4"),
        (
            wording.pages_text([(i, i + 1) for i in range(0, 20, 2)]),
            "pages 0, 2, 4, 6, 8, 10 and 4 more runs",
        ),
        (wording.layers_text([7, 3, 4]), "layers 3-4, 7"),
        (wording.layers_text([]), "no layer"),
        (wording.workers_text("decode", []), "decode"),
        (wording.workers_text("decode", ["d0", "d1", "d2"]), "decode workers d0, d1 and d2"),
        (
            wording.workers_text("decode", [f"d{i}" for i in range(8)]),
            "decode workers d0, d1, d2, d3, d4, d5 and 2 more",
        ),
        (wording.seconds_text(0.5), "0.5 s"),
    ],
)
def test_words(said: str, text: str) -> None:
    assert said == text
