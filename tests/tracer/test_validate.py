"""What the types of the wire cannot say: one row a way to be wrong, and what the refusal says."""

from __future__ import annotations

import math
from typing import Any

import msgspec
import pytest
from hypothesis import assume, event, given
from hypothesis import strategies as st
from support.reports import KEY, speaker
from support.rooms import INDEX_K, KV, Component

from pd_tracer_hooks.u64s import U64s
from pd_tracer_hooks.wire import (
    ComponentDigest,
    Coverage,
    EventKind,
    Heartbeat,
    Observation,
    Side,
    Stage,
)
from tracer.api.validate import (
    Invalid,
    check_cells,
    check_component,
    check_envelope,
    check_event,
    check_manifest,
    check_observation,
    whole_at_once,
)

NOW = 1.8e9
LATER = NOW + 2 * 86_400
ENDS = Component("kv", coverage=Coverage.ends)
#: 64-bit sums that are not zero.
ONE, THREE = U64s.of([1]), U64s.of([1, 2, 3])
#: 4 bytes a character in UTF-8, 2 code units in UTF-16.
WIDE = "\U0001f600"
replace = msgspec.structs.replace


@pytest.mark.parametrize(
    "part",
    [
        KV.part(),
        KV.part(runs=[(0, 3)]),
        KV.part(runs=[(0, 1), (4, 4)], layers=[1]),
        KV.part(last=False),
        Component("kv", pages=1).part(),
        Component("kv", pages=0).part(),
        Component("kv", pages=200, k=150).part(),
        Component("kv", pages=200).part(runs=[(3, 1), (100, 50)]),
        Component("kv", layer_sums=False, buckets=False).part(),
        Component("kv", k=0).part(),
        ENDS.part(),
        ENDS.part(runs=[(0, 4)]),
        KV.part(layers=[]),
    ],
    ids=repr,
)
def test_real_parts_are_taken(part: ComponentDigest) -> None:
    check_component(part)


@pytest.mark.parametrize(
    ("part", "field", "says"),
    [
        (KV.part(sums=U64s()), "sums", "has 0 values: 3 are expected"),
        (KV.part(sums=U64s.of([1, 2, 3, 4])), "sums", "has 4 values"),
        (KV.part(buckets=THREE), "buckets", "8 pages make 8"),
        (replace(ENDS.part(), buckets=THREE), "buckets", "buckets exist at full only"),
        (KV.part(layer_sums=THREE), "layer_sums", "has 3 values: 3 for each of 3 layers"),
        (replace(KV.part(), layers=[0, 1, 1]), "layers", "names a layer twice"),
        (replace(KV.part(), runs=[(0, 9)]), "runs", "reaches page 8: the transfer has 8 pages"),
        (replace(KV.part(), runs=[(4, 4), (0, 4)]), "runs", "sort them"),
        (replace(KV.part(), runs=[(0, 5), (4, 4)]), "runs", "sort them"),
        (replace(KV.part(), runs=[(0, 0), (0, 8)]), "runs", "leave empty runs out"),
        (replace(KV.part(), runs=[(0, 1 << 24)]), "runs", "the transfer has 8 pages"),
        (replace(KV.part(), physical=[(3, 0)]), "physical", "leave empty runs out"),
        (replace(KV.part(), cells=[5, 6, 24]), "cells[0]", "have 6 cells in head"),
        (replace(KV.part(), cells=[6, 7, 24]), "cells[1]", "have 6 cells in tail"),
        (replace(KV.part(), cells=[6, 6, 23]), "cells[2]", "have 24 cells in body at coverage full"),
        (replace(ENDS.part(), cells=[6, 6, 24]), "cells[2]", "have 0 cells in body at coverage ends"),
        (replace(ENDS.part(), sums=THREE), "sums[2]", "the sum of no cells in body is 0"),
        (replace(KV.part(runs=[(3, 1)]), sums=THREE), "sums[0]", "the sum of no cells in head is 0"),
        (replace(KV.part(), name="a,b"), "name", "no comma"),
        (replace(KV.part(), name="a\nb"), "name", "no control character"),
        (replace(KV.part(), name="a\x00"), "name", "NUL"),
        (replace(KV.part(), name=WIDE * 65), "name", "256 bytes"),
    ],
)
def test_parts_that_make_no_sense(part: ComponentDigest, field: str, says: str) -> None:
    with pytest.raises(Invalid) as caught:
        check_component(part)
    assert caught.value.field == field
    assert says in caught.value.reason


def test_sizes_cost_no_time() -> None:
    """The largest sizes that the wire allows are checked without a loop over pages."""
    pages, layers, k = 1 << 24, list(range(1024)), 1 << 16
    part = ComponentDigest(
        name="kv",
        signature=KV.signature,
        pages=pages,
        k=k,
        coverage=Coverage.full,
        layers=layers,
        runs=[(0, pages)],
        sums=THREE,
        cells=[1024 * k, 1024 * k, 1024 * pages],
    )
    check_component(part)


def observation(**changes: Any) -> Observation:
    made = speaker("prefill", "p0").look("1", Stage.send, at=NOW)
    return replace(made, **changes)


@pytest.mark.parametrize(
    ("changes", "field", "says"),
    [
        ({"at": LATER}, "at", "set the clock"),
        ({"at": math.nan}, "at", "nan"),
        ({"at": math.inf}, "at", "inf"),
        ({"signalled_at": LATER}, "signalled_at", "set the clock"),
        ({"stage": Stage.receive}, "stage", "receive is a decode stage"),
        ({"stage": Stage.allocate}, "stage", "allocate is a decode stage"),
        ({"room": "a\x00b"}, "room", "NUL"),
        ({"room": "\ud800"}, "room", "surrogate"),
        ({"room": WIDE * 129}, "room", "512 bytes"),
        ({"request": "\x00"}, "request", "NUL"),
        ({"trace": "\udfff"}, "trace", "surrogate"),
        ({"peer": "\x00"}, "peer", "NUL"),
        ({"peer": WIDE * 65}, "peer", "256 bytes"),
        ({"keys": [KEY, KEY]}, "keys", "twice"),
        ({"components": [KV.part(), KV.part()]}, "components", "'kv' twice"),
        (
            {"components": [INDEX_K.part(), replace(KV.part(), cells=[0, 6, 24])]},
            "components[1].cells[0]",
            "is 0",
        ),
    ],
)
def test_observations_that_make_no_sense(changes: dict[str, Any], field: str, says: str) -> None:
    with pytest.raises(Invalid) as caught:
        check_observation(observation(**changes), Side.prefill, NOW)
    assert caught.value.field == field
    assert says in caught.value.reason


@pytest.mark.parametrize("room", ["0", "-1", "a/b?c#d", "ünï", "\n", "'; DROP TABLE rooms", WIDE * 128, " "])
def test_odd_rooms_are_taken(room: str) -> None:
    check_observation(observation(room=room, at=NOW + 3600), Side.prefill, NOW)


@pytest.mark.parametrize("stage", list(Stage))
def test_each_stage_has_its_side(stage: Stage) -> None:
    sides = []
    for side in Side:
        try:
            check_observation(observation(stage=stage), side, NOW)
            sides.append(side)
        except Invalid:
            pass
    expected = {
        Stage.send: [Side.prefill],
        Stage.release: [Side.prefill],
        Stage.load: list(Side),
        Stage.read: list(Side),
    }
    assert sides == expected.get(stage, [Side.decode])


def test_events_and_manifests() -> None:
    worker = speaker("decode", "d0")
    check_event(worker.event("1", EventKind.opened, at=NOW), NOW)
    for changes, field in (
        ({"at": LATER}, "at"),
        ({"reason": "\x00"}, "reason"),
        ({"component": "a,b"}, "component"),
    ):
        with pytest.raises(Invalid) as caught:
            check_event(worker.event("1", EventKind.aborted, **{"at": NOW, **changes}), NOW)
        assert caught.value.field == field
    good = replace(worker.manifest(KV.in_manifest()), at=NOW)
    check_manifest(good, NOW)
    for components, field in (
        ([KV.in_manifest(), KV.in_manifest()], "components"),
        ([KV.in_manifest(layers=[1, 1])], "components[0].layers"),
        ([replace(KV.in_manifest(), name="\x00")], "components[0].name"),
        ([replace(KV.in_manifest(), fields={"dtype": "\x00"})], "components[0].fields['dtype']"),
    ):
        with pytest.raises(Invalid) as caught:
            check_manifest(replace(good, components=components), NOW)
        assert caught.value.field == field


@pytest.mark.parametrize(
    ("worker", "report", "field"),
    [
        ({"deployment": "\x00"}, {}, "worker.deployment"),
        ({"id": WIDE * 65}, {}, "worker.id"),
        ({"node": "\ud800"}, {}, "worker.node"),
        ({"aliases": ["ok", "\x00"]}, {}, "worker.aliases[1]"),
        ({}, {"sent_at": math.nan}, "sent_at"),
        ({}, {"batch": "\x00"}, "batch"),
        ({}, {"drops": {"\x00": 1}}, "drops"),
        ({}, {"heartbeat": Heartbeat(uptime_s=math.inf)}, "heartbeat.uptime_s"),
    ],
)
def test_envelopes_that_make_no_sense(worker: dict[str, Any], report: dict[str, Any], field: str) -> None:
    with pytest.raises(Invalid) as caught:
        check_envelope(speaker("prefill", "p0", **worker).report(**report), NOW)
    assert caught.value.field == field


@given(
    shape=st.builds(
        Component, layers=st.sampled_from([(0,), (0, 1, 2)]), pages=st.integers(0, 5), k=st.integers(0, 6)
    ),
    cells=st.none() | st.lists(st.integers(0, 15), min_size=3, max_size=3),
    runs=st.none() | st.lists(st.tuples(st.integers(0, 3), st.integers(0, 5)), max_size=2),
    sums=st.sampled_from([None, U64s.of([0, 0, 0]), THREE]),
)
def test_what_passes_the_short_way_passes_the_reckoning(
    shape: Component, cells: list[int] | None, runs: list[tuple[int, int]] | None, sums: U64s | None
) -> None:
    changes = {"cells": cells, "runs": runs, "sums": sums}
    part = replace(shape.part(), **{name: value for name, value in changes.items() if value is not None})
    usual = cells is runs is None and shape.pages > 0 and shape.k > 0
    event("short way" if whole_at_once(part, len(part.layers)) else "reckoned")
    assert whole_at_once(part, len(part.layers)) or not usual
    assume(whole_at_once(part, len(part.layers)))
    check_cells(part, len(part.layers), full=True)
