import pytest

from tracer.demo.geometry import INDEX_K, KV, LAYOUTS, Geometry

torch = pytest.importorskip("torch", reason="the demo's buffers are torch tensors: pip install torch==2.13.0")

from tracer.demo.pools import addresses, compute_rows, make_pools, page_view, tensors  # noqa: E402

GEOMETRY = Geometry(layers=2, pool_pages=5)


def test_shapes_are_those_of_engines() -> None:
    pools = make_pools(GEOMETRY, seed=1)
    assert pools[KV].buffers[1].shape == (5 * 64, 1, 576)
    assert pools[KV].buffers[1].dtype is torch.bfloat16
    assert pools[INDEX_K].buffers[0].shape == (5, 8448)
    assert list(pools[INDEX_K].buffers) == [0]
    for pool in pools.values():
        assert page_view(pool, 0).shape == (5, pool.layout.page_bytes)
        start = addresses(pools)[pool.component][0]
        assert page_view(pool, 0)[3].data_ptr() == start + 3 * pool.layout.page_bytes
    assert len(tensors(pools)) == 3


def test_pools_are_never_empty_and_differ_between_workers() -> None:
    one, same, other = (make_pools(GEOMETRY, seed) for seed in (1, 1, 2))
    for name in (KV, INDEX_K):
        pages = [page_view(pools[name], 0) for pools in (one, same, other)]
        assert bool((pages[0] == pages[1]).all())
        assert float((pages[0] == pages[2]).float().mean()) < 0.1
        assert float((pages[0] == 0).float().mean()) < 0.1


@pytest.mark.parametrize("name", [KV, INDEX_K])
@pytest.mark.parametrize("last_rows", [1, 63, 64])
def test_a_forward_writes_the_rows_it_has_and_no_other(name: str, last_rows: int) -> None:
    pool = make_pools(GEOMETRY, seed=1)[name]
    before = page_view(pool, 0).clone()
    compute_rows(pool, (4, 2), last_rows, torch.Generator().manual_seed(7))
    after = page_view(pool, 0)
    written = torch.zeros_like(after, dtype=torch.bool)
    written[4] = True
    for offset, length in LAYOUTS[name].valid_spans(last_rows):
        written[2, offset : offset + length] = True
    changed = after != before
    assert not bool(changed[~written].any())
    assert float(changed[written].float().mean()) > 0.9


def test_contents_follow_the_seed() -> None:
    pages = []
    for seed in (7, 7, 8):
        pool = make_pools(GEOMETRY, seed=1)[KV]
        compute_rows(pool, (1,), 64, torch.Generator().manual_seed(seed))
        pages.append(page_view(pool, 1)[1])
    assert bool((pages[0] == pages[1]).all())
    assert not bool((pages[0] == pages[2]).all())
