"""The kernel inside a CUDA graph: its pages are named by what lies on the device when it is replayed."""

from __future__ import annotations

import pytest

from pd_tracer_hooks.digest.backend import DigestRequest
from pd_tracer_hooks.layout import DSA_INDEX_K, PageLayout, Segment

LAYERS = (0, 3, 9)


@pytest.mark.parametrize(
    "layout",
    [DSA_INDEX_K, PageLayout(1000, 10, (Segment(4, 20), Segment(404, 36)))],
    ids=["index_k", "apart"],
)
def test_replays_follow_the_list_on_the_device(backend, make_pool, layout):
    import torch

    pool = make_pool(layout, layers=LAYERS, pages=64)
    resident = backend.resident(pool, LAYERS, capacity=48)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        resident.launch()
    for pages, rows in [
        ([5], None),
        (list(range(48)), 3),
        ([63, 0, 7], layout.rows),
        ([], None),
        ([1, 2], 1),
    ]:
        resident.set_pages(pages, rows)
        resident.digests.zero_()
        graph.replay()
        torch.cuda.synchronize()
        wanted = backend.launch(DigestRequest(pool, LAYERS, pages, rows)).result().data
        found = resident.digests[:, : len(pages)].contiguous().cpu().numpy().tobytes()
        assert found == wanted
        assert not resident.digests[:, len(pages) :].any()
    resident.close()


def test_a_write_between_two_digests_of_one_graph_shows(backend, make_pool):
    import torch

    pool = make_pool(DSA_INDEX_K, layers=LAYERS, pages=64)
    before, after = (backend.resident(pool, LAYERS, capacity=64) for _ in range(2))
    for resident in (before, after):
        resident.set_pages(range(64))
    where = torch.zeros(1, dtype=torch.int64, device="cuda")
    value = torch.zeros(1, dtype=torch.uint8, device="cuda")
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        before.launch()
        pool.buffers[3].index_copy_(0, where, value)
        after.launch()
        changed = before.digests.ne(after.digests)
    byte = 8448 * 17 + 5
    for new, expected in [((int(pool.buffers[3][byte]) + 1) % 256, [[1, 17]]), (None, [])]:
        where.fill_(byte)
        value.copy_(
            pool.buffers[3][byte : byte + 1] if new is None else torch.tensor([new], dtype=torch.uint8)
        )
        graph.replay()
        torch.cuda.synchronize()
        assert changed.nonzero().tolist() == expected
    before.close()
    after.close()


def test_more_pages_than_room(backend, make_pool):
    resident = backend.resident(make_pool(DSA_INDEX_K, layers=LAYERS), LAYERS, capacity=2)
    with pytest.raises(ValueError, match="room for 2"):
        resident.set_pages([0, 1, 2])
    resident.close()
