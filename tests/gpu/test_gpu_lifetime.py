"""Pages freed and refilled while a digest waits or reads: ownership says `no`, and no finding is false."""

from __future__ import annotations

import time

import pytest

from pd_tracer_hooks.digest.backend import DigestRequest
from pd_tracer_hooks.layout import PageLayout
from pd_tracer_hooks.ownership import PageOwners
from pd_tracer_hooks.wire import Owned

LAYOUT = PageLayout.plain(64, 1152)
PAGES = 512
LAYERS = tuple(range(16))


@pytest.mark.parametrize("at_once", [False, True], ids=["current_stream", "own_stream"])
def test_freed_and_refilled_at_every_point(backend, make_pool, busy, at_once):
    """The moment of freeing sweeps from before the launch's copy has run to after its event."""
    import torch

    pool = make_pool(LAYOUT, layers=LAYERS, pages=PAGES)
    owners = PageOwners()
    refill = torch.cuda.Stream(priority=-1)
    engine = torch.cuda.Stream()
    digest_stream = torch.cuda.ExternalStream(backend._own) if at_once else engine
    pages = list(range(PAGES))
    seen = {"intact, owned": 0, "intact, freed": 0, "damaged, freed": 0, "damaged, owned": 0}
    torn = 0
    for trial in range(160):
        fill = trial % 100 + 1
        for buffer in pool.buffers.values():
            buffer.fill_(fill)
        torch.cuda.synchronize()
        wanted = backend.launch(DigestRequest(pool, LAYERS, pages)).result().data
        claim = owners.claim(pages)
        with torch.cuda.stream(digest_stream):
            busy(0.5)
        with torch.cuda.stream(engine):
            pending = backend.launch(DigestRequest(pool, LAYERS, pages, at_once=at_once))
        frees = trial % 4 != 3
        if frees:
            until = (
                time.perf_counter() + (trial // 4) * 40e-6
            )  # 0 to 1.6 ms: before, while and after it reads
            while time.perf_counter() < until:
                pass
            owners.freed(pages)
            with torch.cuda.stream(refill):
                for buffer in pool.buffers.values():
                    buffer.fill_(fill + 100)
        while not pending.ready():
            pass
        owned = claim.owned()
        found = pending.result().data
        intact = found == wanted
        assert owned in (Owned.yes, Owned.no)
        assert frees or owned is Owned.yes
        seen[f"{'intact' if intact else 'damaged'}, {'owned' if owned is Owned.yes else 'freed'}"] += 1
        torch.cuda.synchronize()
        refilled = backend.launch(DigestRequest(pool, LAYERS, pages)).result().data
        torn += not intact and found != refilled
    print(f"{seen}, of the damaged {torn} read while being refilled")
    assert seen["damaged, owned"] == 0
    assert seen["damaged, freed"] > 0
    assert seen["intact, freed"] > 0
    assert seen["intact, owned"] >= 20


def test_pages_of_others_may_come_and_go(backend, make_pool, busy):
    pool = make_pool(LAYOUT, pages=64)
    owners = PageOwners()
    mine, others = list(range(32)), list(range(32, 64))
    claim = owners.claim(mine)
    busy(5)
    pending = backend.launch(DigestRequest(pool, (0,), mine))
    while not pending.ready():
        owners.freed(others)
    assert claim.owned() is Owned.yes
