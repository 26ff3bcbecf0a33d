"""Page layouts: which bytes count, and what must agree for two digests to be comparable."""

from __future__ import annotations

from typing import Any

import pytest

from pd_tracer_hooks.layout import DSA_INDEX_K, PageLayout, Segment, signature, signature_fields


@pytest.mark.parametrize(
    ("layout", "rows", "spans"),
    [
        (DSA_INDEX_K, None, ((0, 8192), (8192, 256))),
        (DSA_INDEX_K, 7, ((0, 896), (8192, 28))),
        (DSA_INDEX_K, 0, ((0, 0), (8192, 0))),
        (PageLayout.plain(64, 1152), 1, ((0, 1152),)),
        (PageLayout.opaque(41984), None, ((0, 41984),)),
    ],
)
def test_valid_spans(layout: PageLayout, rows: int | None, spans: tuple[tuple[int, int], ...]) -> None:
    assert layout.valid_spans(rows) == spans


def test_valid_parts_leave_gaps_and_padding_out() -> None:
    layout = PageLayout(20, 2, (Segment(8, 3), Segment(1, 2)))
    assert layout.valid_parts(bytes(range(20))) == [bytes(range(8, 14)), bytes(range(1, 5))]
    assert layout.valid_parts(bytes(range(20)), 1) == [bytes(range(8, 11)), bytes(range(1, 3))]


@pytest.mark.parametrize("rows", [-1, 65])
def test_a_page_has_so_many_rows(rows: int) -> None:
    with pytest.raises(ValueError, match=f"rows={rows}: .* 0 to 64"):
        DSA_INDEX_K.valid_spans(rows)


@pytest.mark.parametrize(
    "bad",
    [
        {"page_bytes": 0},
        {"rows": 0},
        {"segments": ()},
        {"segments": (Segment(-1, 2),)},
        {"segments": (Segment(0, 0),)},
        {"segments": (Segment(1, 4),)},
    ],
)
def test_a_layout_that_does_not_fit_is_refused(bad: dict[str, Any]) -> None:
    good: dict[str, Any] = {"page_bytes": 16, "rows": 4, "segments": (Segment(0, 4),)}
    assert PageLayout(**good).valid_spans() == ((0, 16),)
    with pytest.raises(ValueError, match=r"must not be empty|needs bytes up to"):
        PageLayout(**(good | bad))


@pytest.mark.parametrize(
    ("tokens", "per_row", "expected"),
    [(0, 1, (0, 0)), (1, 1, (1, 1)), (64, 1, (1, 64)), (65, 1, (2, 1)), (3, 4, (0, 0)), (259, 4, (1, 64))],
)
def test_split_rows(tokens: int, per_row: int, expected: tuple[int, int]) -> None:
    assert DSA_INDEX_K.split_rows(tokens, per_row) == expected


INDEX_K = signature_fields(component="index_k", layout=DSA_INDEX_K, k=4)


def test_signature_vectors() -> None:
    assert INDEX_K == {
        "digest": "sm64.1",
        "component": "index_k",
        "dtype": "uint8",
        "page_bytes": "8448",
        "rows": "64",
        "segments": "0:128 8192:4",
        "layout": "index_k_with_scale",
        "head_slice": "",
        "k": "4",
        "layer_choice": "all",
    }
    assert signature(INDEX_K) == "cfd893a7291743bc"
    kv = PageLayout.plain(64, 1152, "bfloat16")
    fields = signature_fields(component="kv", layout=kv, k=8, layer_choice="rotate:4", head_slice="0:8/64")
    assert signature(fields) == "c473156e598cd1f7"


def test_a_signature_depends_on_every_field_and_on_no_order() -> None:
    assert signature(dict(reversed(INDEX_K.items()))) == signature(INDEX_K)
    changed = {signature(INDEX_K | {name: value + "x"}) for name, value in INDEX_K.items()}
    assert len(changed | {signature(INDEX_K)}) == len(INDEX_K) + 1
