"""Pages whose every word says where it belongs, so that a word met on the wire names its cell. Pure.

A word is, from the highest bits down: a mark (16 bits), the room's index (16), the component (1), the layer
(6), the page's ordinal (11) and the word's number in the page (14).
"""

from __future__ import annotations

from dataclasses import dataclass

from tracer.demo.geometry import INDEX_K, KV

_MARK = 0xA5C3
_MARK_BYTES = _MARK.to_bytes(2, "little")
_COMPONENTS = (KV, INDEX_K)


@dataclass(frozen=True)
class Cell:
    """A cell of room ``index``."""

    index: int
    component: str
    layer: int
    page: int


def first_word(cell: Cell) -> int:
    """The cell's word 0, as a signed 64-bit number: torch's. Word i is larger by i."""
    for name, value, bits in (("index", cell.index, 16), ("layer", cell.layer, 6), ("page", cell.page, 11)):
        if not 0 <= value < 1 << bits:
            raise ValueError(f"{name}={value}: a tag has room for 0 to {(1 << bits) - 1}")
    word = _MARK
    for value, bits in (
        (cell.index, 16),
        (_COMPONENTS.index(cell.component), 1),
        (cell.layer, 6),
        (cell.page, 11),
        (0, 14),
    ):
        word = word << bits | value
    return word - (1 << 64)


def find(data: bytes, start: int = 0) -> tuple[int, Cell, int] | None:
    """The first tagged word in ``data`` from byte ``start`` on: its place, its cell, its number.

    A word counts only if the next one is there and follows it, so that chance and other traffic do not look
    like one.
    """
    at = data.find(_MARK_BYTES, start + 6)
    while at != -1:
        place = at - 6
        word = int.from_bytes(data[place : place + 8], "little")
        if len(data) >= place + 16 and int.from_bytes(data[place + 8 : place + 16], "little") == word + 1:
            cell = Cell(
                index=word >> 32 & 0xFFFF,
                component=_COMPONENTS[word >> 31 & 1],
                layer=word >> 25 & 0x3F,
                page=word >> 14 & 0x7FF,
            )
            return place, cell, word & 0x3FFF
        at = data.find(_MARK_BYTES, at + 1)
    return None
