"""Pages and valid rows of the last one, for plain and compressed components."""

from __future__ import annotations

from typing import Any

import pytest

from pd_tracer_hooks.sglang.extents import Extent, last_page_tokens, part

WHOLE = {"first": 0, "total": 3, "last": True, "start": 0}


@pytest.mark.parametrize(
    ("seq_len", "page", "tokens"), [(1, 64, 1), (64, 64, 64), (65, 64, 1), (127, 64, 63), (0, 64, 64)]
)
def test_last_page_tokens(seq_len: int, page: int, tokens: int) -> None:
    assert last_page_tokens(seq_len, page) == tokens


@pytest.mark.parametrize(
    ("what", "seq_len", "page", "rows", "per_row", "expected"),
    [
        ("full last page", 192, 64, 64, 1, Extent((7, 8, 9), 0, 3, True, None, 0)),
        ("partial last page", 130, 64, 64, 1, Extent((7, 8, 9), 0, 3, True, 2, 0)),
        ("compressed by 4", 600, 256, 64, 4, Extent((7, 8, 9), 0, 3, True, 22, 0)),
        ("compressed, one row", 512 + 131, 256, 2, 128, Extent((7, 8, 9), 0, 3, True, 1, 0)),
        (
            "no whole row: the page does not count",
            512 + 100,
            256,
            2,
            128,
            Extent((7, 8), 0, 2, True, None, 0),
        ),
        ("rows that are no tokens", 130, 64, 1, None, Extent((7, 8, 9), 0, 3, True, None, 0)),
        ("length not known", None, 64, 64, 1, Extent((7, 8, 9), 0, 3, True, None, 0)),
    ],
)
def test_last_part(
    what: str, seq_len: int | None, page: int, rows: int, per_row: int | None, expected: Extent
) -> None:
    extent = part([7, 8, 9], seq_len=seq_len, page_size=page, rows=rows, tokens_per_row=per_row, **WHOLE)  # type: ignore[arg-type]
    assert extent == expected, what


def test_earlier_parts_are_full_and_know_the_smaller_total() -> None:
    common: dict[str, Any] = {"seq_len": 612, "page_size": 256, "rows": 2, "tokens_per_row": 128, "start": 1}
    assert part([7], first=0, total=3, last=False, **common) == Extent((7,), 0, 2, False, None, 1)
    assert part([8, 9], first=1, total=3, last=True, **common) == Extent((8,), 1, 2, True, None, 1)
