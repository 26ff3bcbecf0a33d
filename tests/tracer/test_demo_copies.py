import pytest

from tracer.demo.copies import Copies, Pages, page_copies


def copies() -> Copies:
    return page_copies("kv", 16, Pages({5: 1000, 3: 0}, (2, 0)), Pages({3: 9000, 5: 9500}, (1, 4)), first=7)


def rows(of: Copies) -> list[tuple[int, int, int, int, int]]:
    columns = (of.layers, of.ordinals, of.source, of.target, of.size)
    return [tuple(row) for row in zip(*(column.tolist() for column in columns), strict=True)]


def test_one_copy_for_every_cell() -> None:
    assert rows(copies()) == [
        (3, 7, 32, 9016, 16),
        (3, 8, 0, 9064, 16),
        (5, 7, 1032, 9516, 16),
        (5, 8, 1000, 9564, 16),
    ]
    assert copies().total == 64


def test_cells_are_layers_times_pages() -> None:
    chosen = copies()
    assert rows(chosen.where(chosen.cells((5,), (8, 9)))) == [(5, 8, 1000, 9564, 16)]


@pytest.mark.parametrize(
    ("target", "message"),
    [
        (Pages({3: 0, 5: 0}, (1,)), "2 pages to send, 1 to receive"),
        (Pages({3: 0}, (1, 2)), r"layers \[3, 5\] to send, \[3\] to receive"),
    ],
)
def test_refuses_sides_that_differ(target: Pages, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        page_copies("kv", 16, Pages({3: 0, 5: 0}, (1, 2)), target)
