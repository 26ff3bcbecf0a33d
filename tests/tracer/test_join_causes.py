"""The rules of causes: what each needs, the sentence it gives, and how places are gathered to one cause."""

from __future__ import annotations

import pytest
from support.rooms import D0, KEY, KV, P0, POLICY, ZEROS, RoomBuilder
from support.wrongs import BAD, ENDS, Build, component, holding, manifests

from pd_tracer_hooks.digest.definition import cell_sum, page_digest, row_sum
from pd_tracer_hooks.layout import DSA_INDEX_K, signature_fields
from pd_tracer_hooks.wire import Owned, Stage
from tracer.join.attempts import split
from tracer.join.causes import RULES, classify
from tracer.join.causes.case import Case, Rule
from tracer.join.looks import looks_at
from tracer.join.model import Cause, Donor, Donors, How, Shape, Verdict
from tracer.join.parts import Part, add_up
from tracer.join.places import Place
from tracer.join.scene import scene_of
from tracer.join.shape import shape_of
from tracer.join.zeros import Zeros

DONOR = Donor(room="17", how=How.digests, page_runs=[(3, 2)])

CASES: list[tuple[str, Build, Donors, Cause, str]] = [
    (
        "sent_early",
        lambda r: r.opened().send(KV.part(holds=BAD)).send(KV.part(), look=1).receive(KV.part(holds=BAD)),
        {},
        Cause.sent_early,
        "sent early: pages 3-4 in layers 0-2 arrived as handed to the transfer, which was before "
        "they had been computed: a second look at send found other bytes",
    ),
    (
        "sent_early, and only one chunk needed the second look",
        lambda r: (
            r.opened()
            .send(KV.part([(0, 4)], holds=holding("other", 3)))
            .send(KV.part([(4, 4)]))
            .send(KV.part([(0, 4)]), look=1)
            .receive(KV.part(holds=holding("other", 3)))
        ),
        {},
        Cause.sent_early,
        "sent early: page 3 in layers 0-2 arrived as handed to the transfer, which was before "
        "it had been computed: a second look at send found other bytes",
    ),
    (
        "late by the second recheck, since completion was signalled",
        lambda r: (
            r.opened()
            .send(KV.part())
            .receive(KV.part(holds=BAD), at=50.0, signalled_at=49.9)
            .look(Stage.recheck, KV.part(holds=BAD), worker=D0, at=50.0005)
            .look(Stage.recheck, KV.part(), worker=D0, look=1, at=50.0018)
        ),
        {},
        Cause.late,
        "late: pages 3-4 in layers 0-2 were right 102 ms after completion was signalled (recheck 1), "
        "and still wrong at recheck",
    ),
    (
        "late by admit",
        lambda r: (
            r.opened()
            .send(KV.part())
            .receive(KV.part(holds=holding("other", 3)), at=50.0)
            .look(Stage.admit, KV.part(), worker=D0, at=52.0)
        ),
        {},
        Cause.late,
        "late: page 3 in layers 0-2 was right 2 s after receive (admit), and still wrong at receive",
    ),
    (
        "late in one layer: sums over all layers are enough",
        lambda r: (
            r.opened()
            .send(KV.part())
            .receive(KV.part(holds=holding("other", 3, layers=(1,))), at=50.0)
            .look(Stage.admit, KV.part(), worker=D0, at=52.0)
        ),
        {},
        Cause.late,
        "late: page 3 in layer 1 was right 2 s after receive (admit), and still wrong at receive",
    ),
    (
        "late at the ends",
        lambda r: (
            r.opened()
            .send(ENDS.part())
            .receive(ENDS.part(holds=holding("other", 0)), at=50.0)
            .look(Stage.admit, ENDS.part(), worker=D0, at=52.0)
        ),
        {},
        Cause.late,
        "late: pages 0-1 in layers 0-2 were right 2 s after receive (admit), and still wrong at receive",
    ),
    (
        "source_changed: release has what arrived",
        lambda r: (
            r.opened()
            .send(KV.part())
            .receive(KV.part(holds=BAD))
            .look(Stage.release, KV.part(holds=BAD), worker=P0)
        ),
        {},
        Cause.source_changed,
        "source changed: pages 3-4 in layers 0-2 arrived as release found them on prefill, not as send did",
    ),
    (
        "source_changed: what arrived is neither",
        lambda r: (
            r.opened()
            .send(KV.part())
            .receive(KV.part(holds=BAD))
            .look(Stage.release, KV.part(holds=holding("third", 3, 4)), worker=P0)
        ),
        {},
        Cause.source_changed,
        "source changed: prefill's pages 3-4 in layers 0-2 held other bytes at release than at send, "
        "and what arrived is not what was sent",
    ),
    (
        "cross_room",
        lambda r: r.opened().send(KV.part()).receive(KV.part(holds=BAD)),
        {(KEY, "kv"): [DONOR]},
        Cause.cross_room,
        "cross room: pages 3-4 in layers 0-2 hold bytes of room 17",
    ),
    (
        "stale",
        lambda r: (
            r.look(Stage.allocate, KV.part(content="before"), worker=D0)
            .opened()
            .send(KV.part())
            .receive(KV.part(holds=holding("before", 3, 4)))
        ),
        {},
        Cause.stale,
        "stale: pages 3-4 in layers 0-2 still hold what was there before the pages were handed out",
    ),
    (
        "stale, left by a room that is known",
        lambda r: (
            r.look(Stage.allocate, KV.part(content="other"), worker=D0)
            .opened()
            .send(KV.part())
            .receive(KV.part(holds=BAD))
        ),
        {(KEY, "kv"): [DONOR]},
        Cause.stale,
        "stale: pages 3-4 in layers 0-2 still hold what was there before the pages were handed out, "
        "bytes of room 17",
    ),
    (
        "stale in one layer, all pages: told by its row",
        lambda r: (
            r.look(Stage.allocate, KV.part(content="before"), worker=D0)
            .opened()
            .send(KV.part())
            .receive(KV.part(holds=holding("before", *range(8), layers=(1,))))
        ),
        {},
        Cause.stale,
        "stale: pages 0-7 in layer 1 still hold what was there before the pages were handed out",
    ),
    (
        "zeroed, and a fresh pool",
        lambda r: (
            manifests(r)
            .look(Stage.allocate, KV.part(content=ZEROS), worker=D0)
            .opened()
            .send(KV.part())
            .receive(KV.part(holds=holding(ZEROS, 6, 7)))
        ),
        {},
        Cause.stale,
        "stale: pages 6-7 in layers 0-2 still hold what was there before the pages were handed out, "
        "which is zeros: never written to a fresh pool, or zeroed; a run up to the last page",
    ),
    (
        "zeroed, and the pool was not fresh",
        lambda r: (
            manifests(r)
            .look(Stage.allocate, KV.part(content="before"), worker=D0)
            .opened()
            .send(KV.part())
            .receive(KV.part(holds=holding(ZEROS, 6, 7) | holding("half prompt", 5)))
        ),
        {},
        Cause.zeroed,
        "zeroed: pages 6-7 in layers 0-2 hold zeros; page 5 at the run's edge: neither zero nor right "
        "as a whole; a run up to the last page",
    ),
    (
        "overwritten by admit",
        lambda r: (
            r.opened()
            .send(KV.part())
            .receive(KV.part(), at=50.0)
            .look(Stage.recheck, KV.part(owned=Owned.yes), worker=D0, at=50.1)
            .look(Stage.admit, KV.part(holds=BAD, owned=Owned.yes), worker=D0, at=50.35)
        ),
        {},
        Cause.overwritten,
        "overwritten: pages 3-4 in layers 0-2 were right at recheck and wrong at admit, 350 ms after receive",
    ),
    (
        "none of these",
        lambda r: r.opened().send(KV.part()).receive(KV.part(holds=BAD)),
        {},
        Cause.unexplained,
        "body differs in layers 0-2, pages 3-4 of 8",
    ),
    (
        "a room that only held the pages is named as no more than that",
        lambda r: r.opened().send(KV.part()).receive(KV.part(holds=BAD)),
        {(KEY, "kv"): [Donor(room="17", how=How.held, page_runs=[(2, 4)])]},
        Cause.unexplained,
        "body differs in layers 0-2, pages 3-4 of 8; room 17 held these pages, "
        "and what was in them is not known",
    ),
]


@pytest.mark.parametrize(
    ("build", "donors", "cause", "reason"), [row[1:] for row in CASES], ids=[r[0] for r in CASES]
)
def test_the_cause_and_its_sentence(build: Build, donors: Donors, cause: Cause, reason: str) -> None:
    said = component(build, donors)
    assert (said.verdict, said.cause, said.reason) == (Verdict.mismatch, cause, reason)
    assert said.evidence is not None
    assert said.evidence.causes == {cause.value: said.evidence.units}
    assert said.evidence.comparisons


def test_what_is_certain_lacks_nothing() -> None:
    for name, build, donors, cause, _ in CASES:
        evidence = component(build, donors).evidence
        assert evidence is not None
        if cause in (Cause.sent_early, Cause.late, Cause.overwritten):
            assert evidence.missing == [], name


MIXED = [Place(("bucket", page, 0), (), (), page, page + 1) for page in range(4)]


@pytest.mark.parametrize(
    ("causes", "cause"),
    [
        ([Cause.unexplained, Cause.zeroed, Cause.late, Cause.unexplained], Cause.late),
        ([Cause.zeroed, Cause.stale, Cause.zeroed, Cause.zeroed], Cause.stale),
        ([Cause.unexplained] * 4, Cause.unexplained),
    ],
)
def test_places_of_several_causes_have_the_first_in_order(causes: list[Cause], cause: Cause) -> None:
    names = dict(zip((place.key for place in MIXED), causes, strict=True))
    rules = [
        Rule(one.cause, lambda _, place, cause=one.cause: names[place.key] is cause, lambda _: "")  # type: ignore[misc]
        for one in RULES
    ]
    case = component_case()
    case.places = MIXED
    said = classify(case, rules)
    assert said.cause is cause
    assert sum(said.counts.values()) == len(MIXED)


def component_case() -> Case:
    """A case whose looks no rule of the test asks."""
    room = RoomBuilder().opened().send(KV.part()).receive(KV.part(holds=BAD))
    (draft,) = split(room.entries)
    scene = scene_of(draft.transfers[KEY], {}, POLICY, room.now)
    return Case(looks_at("kv", scene), [], Zeros(scene.decode["kv"], {}))


@pytest.mark.parametrize(
    ("spans", "cells", "shape"),
    [
        ([(0, 16)], 0, Shape.whole),
        ([(0, 5)], 0, Shape.early_run),
        ([(5, 16)], 0, Shape.tail_run),
        ([(5, 9)], 0, Shape.one_run),
        ([(5, 6)], 1, Shape.one_cell),
        ([(5, 6)], 3, Shape.one_run),
        ([(0, 1), (4, 5), (8, 9)], 0, Shape.stride),
        ([(0, 1), (4, 5)], 0, Shape.scattered),
        ([(0, 1), (4, 6), (8, 9)], 0, Shape.scattered),
        ([(0, 1), (4, 5), (9, 10)], 0, Shape.scattered),
    ],
)
def test_shapes(spans: list[tuple[int, int]], cells: int, shape: Shape) -> None:
    assert shape_of(spans, 16, cells=cells, of=48) is shape


def test_a_single_cell_that_is_all_there_is() -> None:
    assert shape_of([(0, 1)], 1, cells=1, of=1) is Shape.whole


def test_zeros_of_pages_with_two_segments_and_a_partial_last_page() -> None:
    fields = signature_fields(component="kv", layout=DSA_INDEX_K, k=2)
    part = KV.part(last_rows=7)
    zeros = Zeros(add_up("decode", [Part("d0", part, None)]), fields)
    assert zeros.get(("cell", 0, 3)) == page_digest(bytes(64 * 128), bytes(64 * 4))
    assert zeros.get(("cell", 0, 7)) == page_digest(bytes(7 * 128), bytes(7 * 4))
    pages = [zeros.get(("cell", 0, page)) for page in range(8)]
    every = [(layer, page, digest) for layer in KV.layers for page, digest in enumerate(pages) if digest]
    assert zeros.get(("region", 2, 0)) == cell_sum(every)
    assert zeros.get(("bucket", 7, 0)) == cell_sum([cell for cell in every if cell[1] == 7])
    assert zeros.get(("row", 1, 2)) == row_sum((page, digest) for page, digest in enumerate(pages) if digest)
    assert Zeros(add_up("decode", [Part("d0", part, None)]), {}).get(("cell", 0, 0)) is None


def test_zeros_are_not_summed_without_bound() -> None:
    huge = KV.part(pages=1_000_000)
    zeros = Zeros(add_up("decode", [Part("d0", huge, None)]), KV.fields)
    assert zeros.too_large
    assert zeros.get(("bucket", 0, 0)) is None
    assert zeros.get(("cell", 0, 17)) is not None
