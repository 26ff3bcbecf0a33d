"""Page digests that were asked for: the exact cells, and whose they are."""

from __future__ import annotations

import dataclasses
import random

import pytest
from support.rooms import D0, KEY, KEY2, KV, P0, POLICY, Cell, RoomBuilder

from pd_tracer_hooks.u64s import U64s
from pd_tracer_hooks.wire import Coverage, Detail, Stage
from tracer.join import judge
from tracer.join.model import (
    Cause,
    ComponentVerdict,
    LayerPages,
    RoomVerdict,
    Shape,
    Verdict,
    WorkerRef,
)

LONG = dataclasses.replace(KV, pages=200, layers=(3, 7))


def judged(room: RoomBuilder) -> RoomVerdict:
    return judge(room.entries, room.manifests, POLICY, room.now)


def component(room: RoomBuilder) -> ComponentVerdict:
    (said,) = judged(room).components
    return said


def with_details(kv: object, holds: dict[Cell, str], **other: object) -> RoomBuilder:
    assert isinstance(kv, type(KV))
    room = RoomBuilder().opened().send(kv.part()).receive(kv.part(holds=holds))
    room.detail(P0, kv.detail(Stage.send, **other))  # type: ignore[arg-type]
    return room.detail(D0, kv.detail(Stage.receive, holds=holds, **other))  # type: ignore[arg-type]


@pytest.mark.parametrize("kv", [LONG, dataclasses.replace(LONG, buckets=False, layer_sums=False)])
def test_the_very_cells_are_named(kv: object) -> None:
    said = component(with_details(kv, {(3, 100): "x", (7, 101): "x", (7, 102): "x", (7, 150): "x"}))
    assert said.where is not None
    assert said.where.cells == [
        LayerPages(layer=3, runs=[(100, 1)]),
        LayerPages(layer=7, runs=[(101, 2), (150, 1)]),
    ]
    assert said.where.layers == [3, 7]
    assert said.where.page_runs == [(100, 3), (150, 1)]
    assert said.reason == "body differs in layers 3, 7, pages 100-102, 150 of 200"
    assert said.shape is Shape.scattered
    assert said.evidence is not None
    assert (said.evidence.unit, said.evidence.units) == ("cell", 4)


def test_digests_sent_layers_by_layers() -> None:
    kv = dataclasses.replace(LONG, layers=(3, 5, 7))
    holds = {(5, 100): "x"}
    room = RoomBuilder().opened().send(kv.part()).receive(kv.part(holds=holds))
    room.detail(P0, kv.detail(Stage.send))
    whole = kv.detail(Stage.receive, holds=holds)
    row = len(whole["digests"]) // 3
    for number, layer in enumerate(kv.layers):
        piece = U64s(whole["digests"][number * row : (number + 1) * row])
        room.detail(D0, {**whole, "layers": [layer], "digests": piece})
    said, expected = component(room), component(with_details(kv, holds))
    assert said.where is not None
    assert said.where.cells == [LayerPages(layer=5, runs=[(100, 1)])]
    assert (said.where, said.evidence) == (expected.where, expected.evidence)


def test_one_cell_of_many() -> None:
    said = component(with_details(LONG, {(7, 100): "x"}))
    assert (said.cause, said.shape) == (Cause.unexplained, Shape.one_cell)


def test_with_very_many_cells_buckets_are_classified_and_cells_are_named() -> None:
    kv = dataclasses.replace(KV, pages=1000, layers=tuple(range(20)), content="long")
    chunks = [[(0, 90)], [(90, 910)]]
    bad = {(layer, page): "before" for layer in kv.layers for page in range(90, 1000)}
    room = RoomBuilder().look(Stage.allocate, kv.part(content="before"), worker=D0).opened()
    for chunk in chunks:
        room.send(kv.part(chunk)).detail(P0, kv.detail(Stage.send, chunk))
    room.receive(kv.part(holds=bad)).detail(D0, kv.detail(Stage.receive, holds=bad))
    said = component(room)
    assert said.cause is Cause.stale
    assert said.evidence is not None
    assert said.evidence.unit == "bucket"
    assert said.where is not None
    assert said.where.cells == [LayerPages(layer=layer, runs=[(90, 910)]) for layer in kv.layers]
    assert (said.shape, said.chunk_edges) == (Shape.tail_run, [90])
    # The bucket at the edge holds good pages too.
    assert said.boundary == [(78, 15)]


def test_the_cell_map_is_bounded() -> None:
    kv = dataclasses.replace(KV, pages=2100, layers=(0,), content="long")
    said = component(with_details(kv, {(0, page): "x" for page in range(0, 2100, 2)}))
    assert said.where is not None
    assert sum(len(layer.runs) for layer in said.where.cells) == 1024
    assert said.where.cells_left_out == 1050 - 1024
    assert said.shape is Shape.stride


@pytest.mark.parametrize(
    "spoil",
    [
        lambda f: {**f, "digests": U64s.of([value ^ 1 for value in f["digests"].values()])},
        lambda f: {**f, "digests": f["digests"][:-8]},
        lambda f: {**f, "runs": [(0, 7)]},
        lambda f: {**f, "layers": [0, 1]},
        lambda f: {**f, "stage": Stage.admit},
        lambda f: {**f, "component": "index_k"},
        lambda f: {**f, "digests": U64s(), "gone": True, "reason": "too old"},
    ],
)
def test_digests_that_do_not_fold_to_the_sums_prove_nothing(spoil: object) -> None:
    assert callable(spoil)
    room = RoomBuilder().opened().send(KV.part()).receive(KV.part(holds={(1, 3): "x"}))
    without = component(room)
    room.detail(P0, KV.detail(Stage.send))
    room.detail(D0, spoil(KV.detail(Stage.receive, holds={(1, 3): "x"})))
    said = component(room)
    assert (said.cause, said.reason, said.where) == (without.cause, without.reason, without.where)


def test_strange_digests_are_mentioned() -> None:
    room = RoomBuilder().opened().send(KV.part()).receive(KV.part(holds={(1, 3): "x"}))
    room.detail(P0, KV.detail(Stage.send)).detail(D0, KV.detail(Stage.receive))
    evidence = component(room).evidence
    assert evidence is not None
    assert any(
        "receive came that do not add up to its sums" in text and text.startswith("page digests")
        for text in evidence.missing
    )


def test_digests_find_their_attempt_when_a_key_is_used_again() -> None:
    bad, worse = {(1, 3): "x"}, {(2, 5): "y", (0, 1): "y"}
    room = RoomBuilder()
    for holds, request in ((bad, "a"), (worse, "b")):
        room.opened(request=request).send(KV.part()).receive(KV.part(holds=holds), request=request)
    told = [
        (P0, KV.detail(Stage.send)),
        (D0, KV.detail(Stage.receive, holds=worse)),
        (D0, KV.detail(Stage.receive, holds=bad)),
    ]
    for worker, detail in told:
        room.detail(worker, detail)
    places = [
        part.where.cells
        for attempt in judged(room).attempts
        for part in attempt.transfers[0].components
        if part.where is not None
    ]
    assert places == [
        [LayerPages(layer=1, runs=[(3, 1)])],
        [LayerPages(layer=0, runs=[(1, 1)]), LayerPages(layer=2, runs=[(5, 1)])],
    ]


def test_a_worker_that_holds_only_one_side_does_not_explain_the_other() -> None:
    other = WorkerRef("d9", "boot-d9", D0.side, "D")
    room = RoomBuilder().opened().send(KV.part()).receive(KV.part(holds={(1, 3): "x"}))
    room.detail(P0, KV.detail(Stage.send)).detail(other, KV.detail(Stage.receive, holds={(1, 3): "x"}))
    where = component(room).where
    assert where is not None
    assert where.cells == []


def test_a_match_stays_one_whatever_digests_come() -> None:
    room = RoomBuilder().opened().send(KV.part()).receive(KV.part())
    before = judged(room)
    room.detail(P0, KV.detail(Stage.send)).detail(D0, KV.detail(Stage.receive, holds={(0, 0): "x"}))
    assert judged(room) == before


def test_digests_alone_are_no_room_that_can_be_judged() -> None:
    said = judged(RoomBuilder().detail(D0, KV.detail(Stage.receive)))
    assert (said.verdict, said.settled) == (Verdict.dropped, True)
    assert "observations that they belong to are not here" in said.reason


def test_reordered_words_and_pages() -> None:
    words = component(
        with_details(KV, {(1, 3): "reversed prompt", (2, 3): "reversed prompt"}, order_free=True)
    )
    assert words.cause is Cause.reordered
    assert words.reason == "reordered: page 3 in layers 1-2 holds its own words in another order"
    swap = {(1, 3): "prompt@4", (1, 4): "prompt@3"}
    pages = RoomBuilder().opened().send(KV.part())
    pages.receive(KV.part(holds=swap)).detail(P0, KV.detail(Stage.send))
    pages.detail(D0, KV.detail(Stage.receive, holds=swap))
    said = component(pages)
    assert said.cause is Cause.reordered
    assert said.reason == "reordered: pages 3-4 in layer 1 hold one another's bytes"


def test_a_page_sent_twice_is_not_reordered() -> None:
    said = component(with_details(KV, {(1, 3): "prompt@4"}, order_free=True))
    assert (said.cause, said.shape) == (Cause.unexplained, Shape.one_cell)


def test_damage_of_two_kinds_names_the_first_and_counts_the_other() -> None:
    late = {(1, 3): "before", (1, 4): "before"}
    room = RoomBuilder().opened().send(KV.part())
    room.receive(KV.part(holds=late | {(2, 6): "x"}), at=10.0)
    room.look(Stage.admit, KV.part(holds={(2, 6): "x"}), worker=D0, at=10.5)
    for worker, fields in (
        (P0, KV.detail(Stage.send)),
        (D0, KV.detail(Stage.receive, holds=late | {(2, 6): "x"})),
        (D0, KV.detail(Stage.admit, holds={(2, 6): "x"})),
    ):
        room.detail(worker, fields)
    said = component(room)
    assert said.cause is Cause.late
    assert said.evidence is not None
    assert said.evidence.causes == {"late": 2, "unexplained": 1}
    assert said.reason == (
        "late: pages 3-4 in layer 1 were right 500 ms after receive (admit), and still wrong at receive "
        "(2 of 3 places; 1 unexplained)"
    )


def test_sums_stand_in_for_the_page_digests_of_a_look_that_has_none() -> None:
    room = with_details(KV, {(1, 3): "before"})
    room.look(Stage.admit, KV.part(), worker=D0)
    assert component(room).cause is Cause.late


def test_at_the_ends() -> None:
    ends = dataclasses.replace(KV, coverage=Coverage.ends)
    said = component(with_details(ends, {(1, 7): "x", (2, 0): "x"}))
    assert said.where is not None
    assert said.where.cells == [LayerPages(layer=1, runs=[(7, 1)]), LayerPages(layer=2, runs=[(0, 1)])]


def test_the_order_of_arrival_does_not_matter() -> None:
    room = with_details(KV, {(1, 3): "reversed prompt"}, order_free=True)
    room.look(Stage.admit, KV.part(holds={(1, 3): "reversed prompt"}), worker=D0)
    said = judged(room)
    rng = random.Random(3)
    for _ in range(20):
        mixed = [*room.entries, *room.entries]
        rng.shuffle(mixed)
        assert judge(mixed, {}, POLICY, room.now) == said
    assert any(isinstance(entry.record, Detail) for entry in room.entries)


def test_keys_keep_transfers_apart() -> None:
    room = RoomBuilder().opened().opened(keys=[KEY2], worker=WorkerRef("d1", "b", D0.side, "D"))
    room.send(KV.part(), keys=[KEY, KEY2]).receive(KV.part(holds={(1, 3): "x"}))
    room.receive(KV.part(), keys=[KEY2], worker=WorkerRef("d1", "b", D0.side, "D"))
    room.detail(P0, KV.detail(Stage.send), keys=[KEY, KEY2])
    room.detail(D0, KV.detail(Stage.receive, holds={(1, 3): "x"}))
    first, second = judged(room).attempts[0].transfers
    assert (first.verdict, second.verdict) == (Verdict.mismatch, Verdict.match)
    where = first.components[0].where
    assert where is not None
    assert where.cells == [LayerPages(layer=1, runs=[(3, 1)])]
