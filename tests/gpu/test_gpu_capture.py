"""What a worker reports of pages on the device is what it would report of the same bytes on the host."""

from __future__ import annotations

import time

import pytest

from pd_tracer_hooks.capture import ComponentLook, Look, Plan, Read, launch, observation
from pd_tracer_hooks.digest.backend import Pool
from pd_tracer_hooks.digest.cpu import CpuBackend
from pd_tracer_hooks.layout import DSA_INDEX_K
from pd_tracer_hooks.wire import Owned, Stage

LAYERS = (3, 4, 9)


def observed(backend, pool: Pool, plan: Plan, stage: Stage, **component):
    look = Look(room="7", stage=stage, components=[ComponentLook(pool=pool, **component)])
    reads = []
    for each in launch(backend, plan, look):
        while not each.pending.ready():
            time.sleep(0)
        reads.append(Read(each.look, each.ordinals, each.physical, each.pending.result()))
    return observation(look, plan, reads, totals={"kv": 40}, seq=1, owned=Owned.yes).components


@pytest.mark.parametrize("stage", [Stage.send, Stage.receive, Stage.admit])
@pytest.mark.parametrize(
    ("full", "layer_sums"), [(True, True), (True, False), (False, True)], ids=["rows", "full", "ends"]
)
@pytest.mark.parametrize(
    "component",
    [
        {"pages": list(range(39, -1, -1)), "total_pages": 40, "last_rows": 11},
        {"pages": list(range(20)), "first": 20, "total_pages": 40, "last_rows": 64},
        {"pages": list(range(20)), "first": 0, "total_pages": 40, "last": False},
        {"pages": [7, 3], "first": 38, "total_pages": None},
    ],
    ids=["whole", "second_chunk", "first_chunk", "unsized"],
)
def test_observations_are_those_of_the_cpu(backend, make_pool, stage, full, layer_sums, component):
    pool = make_pool(DSA_INDEX_K, layers=LAYERS, pages=40)
    host = Pool("kv", pool.layout, {layer: held.cpu() for layer, held in pool.buffers.items()})
    plan = Plan(full=full, k=2, layer_choice="all", layer_sums=layer_sums, owning_layers={})
    assert observed(backend, pool, plan, stage, **component) == observed(
        CpuBackend(), host, plan, stage, **component
    )
