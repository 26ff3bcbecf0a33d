"""From pools and transfer arguments to components, on stand-ins that need no torch."""

from __future__ import annotations

import pytest
from support.sglang_fakes import Tensor, dsa, dsa_args, kv_args, mha, mha_args, pool

from pd_tracer_hooks.layout import DSA_INDEX_K
from pd_tracer_hooks.sglang import page_layouts
from pd_tracer_hooks.sglang.pools import MAIN, take_inventory


def test_mha_is_two_components_with_all_layers() -> None:
    one = mha()
    found = take_inventory(mha_args(one), one)
    assert [(c.name, c.source, sorted(c.pool.buffers)) for c in found.components] == [
        ("k", MAIN, [0, 1]),
        ("v", MAIN, [0, 1]),
    ]
    assert found.components[0].pool.layout.page_bytes == 512
    assert found.notes == {}


@pytest.mark.parametrize("name", ["DSA", "NSA"])
def test_dsa_index_keys_skip_layers_that_own_none(name: str) -> None:
    one = dsa(start=10, name=name)
    found = take_inventory(dsa_args(one), one)
    assert [(c.name, c.source, sorted(c.pool.buffers)) for c in found.moved] == [
        ("kv", MAIN, [10, 11, 12]),
        ("index_k", 0, [10, 12]),
    ]
    assert found.components[1].pool.layout == DSA_INDEX_K


def test_to_0_5_11_there_is_one_state_with_flat_lists() -> None:
    one = dsa()
    args = dsa_args(one)
    args.state_type, args.state_data_ptrs, args.state_item_lens = (
        "nsa",
        args.state_data_ptrs[0],
        args.state_item_lens[0],
    )
    del args.state_types
    assert [c.name for c in take_inventory(args, one).moved] == ["kv", "index_k"]


def test_what_a_pool_holds_and_the_transfer_lacks_is_held() -> None:
    one = dsa()
    args = dsa_args(one)
    args.state_types, args.state_data_ptrs, args.state_item_lens = [], [], []
    found = take_inventory(args, one)
    assert [(c.name, c.moved) for c in found.components] == [("kv", True), ("index_k", False)]


def test_a_draft_pool_is_components_of_its_own() -> None:
    one, draft = mha(), mha(layers=1)
    args = mha_args(one)
    more = mha_args(draft)
    args.kv_data_ptrs += more.kv_data_ptrs
    args.kv_item_lens += more.kv_item_lens
    found = take_inventory(args, one, draft)
    assert [(c.name, len(c.pool.buffers)) for c in found.moved] == [
        ("k", 2), ("v", 2), ("draft_k", 1), ("draft_v", 1),
    ]  # fmt: skip


def test_a_buffer_of_nobody_is_reported_and_not_guessed() -> None:
    one = pool("ForkedPool")
    found = take_inventory(kv_args([(Tensor(10, 512), 512)], 16), one)
    assert found.components == ()
    assert found.notes["pool"] == "ForkedPool is not known: traced as opaque pages"
    assert "not found in any pool" in found.notes["kv[0]"]


def test_state_without_whole_items_is_named() -> None:
    tail = Tensor(4, 64)
    one = mha()
    args = mha_args(one)
    args.state_types = [type("T", (), {"value": "dsa_tail"})()]
    args.state_data_ptrs, args.state_item_lens = [[tail.data_ptr()]], [[64]]
    one.extra = [tail]
    assert "dsa_tail" in take_inventory(args, one).notes


def test_a_share_of_the_heads_is_bound_into_the_layout() -> None:
    one = mha()
    whole = take_inventory(mha_args(one), one, heads=(2, 2)).components[0].pool.layout
    half = take_inventory(mha_args(one), one, heads=(2, 4)).components[0].pool.layout
    assert whole.kind == "rows"
    assert half.kind == "rows heads 2/4"


@pytest.mark.parametrize(
    ("tensor", "rows", "kind", "segments"),
    [
        (Tensor(17, 8448), 64, "index_k_with_scale", [(0, 128), (8192, 4)]),
        (Tensor(17, 64 * 68), 64, "index_k_with_scale", [(0, 64), (4096, 4)]),
        (Tensor(17, 8192, itemsize=2, dtype="torch.bfloat16"), 64, "index_k", [(0, 256)]),
        (Tensor(17, 9000), 64, "opaque", [(0, 9000)]),
        (Tensor(17, 64 * 100), 64, "opaque", [(0, 6400)]),
    ],
)
def test_index_keys_by_what_a_row_comes_to(
    tensor: Tensor, rows: int, kind: str, segments: list[tuple[int, int]]
) -> None:
    layout = page_layouts.index_keys(tensor, rows)
    assert layout.kind == kind
    assert [(s.offset, s.row_bytes) for s in layout.segments] == segments


@pytest.mark.parametrize(
    ("page_bytes", "rows", "kind"),
    [(37440, 64, "v4"), (1728, 2, "v4"), (149760, 256, "v4"), (37441, 64, "opaque"), (37440, 63, "opaque")],
)
def test_v4_pages(page_bytes: int, rows: int, kind: str) -> None:
    layout = page_layouts.v4_rows(Tensor(5, page_bytes), rows)
    assert layout.kind == kind
    if kind == "v4":
        assert [(s.offset, s.row_bytes) for s in layout.segments] == [(0, 576), (576 * rows, 8)]


def test_v4_variants_that_are_not_known_are_opaque() -> None:
    assert page_layouts.v4_rows(Tensor(5, 37440), 64, "v41").kind == "opaque"
    assert page_layouts.v4_rows(Tensor(5, 64 * 512), 64, "uniform_fp8").kind == "v4_uniform"


def test_head_major_pages_have_a_segment_a_head() -> None:
    layout = page_layouts.head_major(Tensor(9, 2, 16, 8, itemsize=2), 16)
    assert [(s.offset, s.row_bytes) for s in layout.segments] == [(0, 16), (256, 16)]
    assert page_layouts.head_major(Tensor(9, 2, 16, 8), 32).kind == "opaque"
