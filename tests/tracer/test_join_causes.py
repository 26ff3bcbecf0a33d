"""The rules of causes, one by one and gathered: what each needs, and what is said when it is not there."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import pytest
from support.rooms import (
    D0,
    KEY,
    KV,
    P0,
    POLICY,
    ZEROS,
    Cell,
    Component,
    RoomBuilder,
)

from pd_tracer_hooks.wire import Coverage, Owned, Stage
from tracer.join import judge
from tracer.join.model import Cause, ComponentVerdict, Donor, Donors, How, RoomVerdict, Verdict

ALL = KV.layers
HALF = dataclasses.replace(KV, pages=16)
NO_BUCKETS = dataclasses.replace(KV, buckets=False)
ENDS = dataclasses.replace(KV, coverage=Coverage.ends)
Build = Callable[[RoomBuilder], Any]


def cells(*pages: int, layers: tuple[int, ...] = ALL) -> set[Cell]:
    return {(layer, page) for layer in layers for page in pages}


def holding(what: str, *pages: int, layers: tuple[int, ...] = ALL) -> dict[Cell, str]:
    return dict.fromkeys(cells(*pages, layers=layers), what)


def judged(room: RoomBuilder, donors: Donors | None = None) -> RoomVerdict:
    return judge(room.entries, room.manifests, POLICY, room.now, donors or {})


def component(build: Build, donors: Donors | None = None) -> ComponentVerdict:
    room = RoomBuilder()
    build(room)
    (said,) = judged(room, donors).components
    return said


def manifests(room: RoomBuilder, kv: Component = KV) -> RoomBuilder:
    return room.manifest(P0, kv.in_manifest()).manifest(D0, kv.in_manifest())


BAD = holding("other", 3, 4)
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
