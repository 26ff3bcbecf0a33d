import struct

import pytest

from tracer.demo.geometry import INDEX_K, KV
from tracer.demo.tags import Cell, find, first_word

CELLS = [
    Cell(0, KV, 0, 0),
    Cell(65535, INDEX_K, 63, 2047),
    Cell(17, INDEX_K, 5, 93),
    Cell(300, KV, 2, 1),
]


def page(cell: Cell, words: int = 32) -> bytes:
    return struct.pack(f"<{words}q", *(first_word(cell) + number for number in range(words)))


@pytest.mark.parametrize("cell", CELLS)
@pytest.mark.parametrize("shift", range(9))
def test_a_word_names_its_cell_wherever_it_lies(cell: Cell, shift: int) -> None:
    data = b"\xa5" * shift + page(cell) + b"rest"
    assert find(data) == (shift, cell, 0)
    assert find(data, shift + 17) == (shift + 24, cell, 3)


@pytest.mark.parametrize("data", [b"", b"\xc3\xa5", bytes(64), b"\xc3\xa5" * 40, page(CELLS[0], 1)])
def test_other_bytes_are_no_words(data: bytes) -> None:
    assert find(data) is None


@pytest.mark.parametrize(
    ("cell", "message"),
    [
        (Cell(65536, KV, 0, 0), "index=65536"),
        (Cell(0, KV, 64, 0), "layer=64"),
        (Cell(0, KV, 0, 2048), "page"),
    ],
)
def test_refuses_what_has_no_room(cell: Cell, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        first_word(cell)
