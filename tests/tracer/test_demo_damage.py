"""What faults do to the copies of a transfer, played on plain arrays."""

import numpy as np
import pytest

from pd_tracer_hooks.layout import PageLayout, Segment
from tracer.demo.copies import Copies, Pages, page_copies
from tracer.demo.damage import cut_tail, reverse_rows, slice_rows, swap_pages, zero_tail
from tracer.demo.faults import Aim
from tracer.demo.plan import Fault

LAYOUT = PageLayout(24, 4, (Segment(0, 4), Segment(16, 2)))
PAGES = 4


def play(copies: Copies, memory: bytes) -> bytes:
    """Carry the copies out: sources are offsets in ``memory``, targets in 0xff's of the same length."""
    target = bytearray(b"\xff" * len(memory))
    for source, place, size in zip(copies.source, copies.target, copies.size, strict=True):
        target[int(place) : int(place + size)] = memory[int(source) : int(source + size)]
    return bytes(target)


def room() -> tuple[Copies, bytes]:
    side = Pages({0: 0}, tuple(range(PAGES)))
    memory = bytes(np.arange(PAGES * 24, dtype=np.uint8)) + bytes(24)
    return page_copies("kv", 24, side, side), memory


def hit(*pages: int, offset: int = 0) -> Aim:
    return Aim(fault=Fault.tail_zeroed, component="kv", layers=(0,), pages=pages, offset=offset)


def test_a_tail_is_cut_or_zeroed() -> None:
    copies, memory = room()
    aim = hit(2, 3, offset=5)
    good = memory[: 2 * 24 + 5]
    assert play(cut_tail(copies, aim), memory) == good.ljust(len(memory), b"\xff")
    zeroed = good.ljust(PAGES * 24, b"\0") + b"\xff" * 24
    assert play(zero_tail(copies, aim, PAGES * 24), memory) == zeroed


def test_a_tail_of_whole_pages_is_zeroed() -> None:
    copies, memory = room()
    zeroed = memory[: 3 * 24] + bytes(24) + b"\xff" * 24
    assert play(zero_tail(copies, hit(3), PAGES * 24), memory) == zeroed


def test_pages_change_places() -> None:
    copies, memory = room()
    got = play(swap_pages(copies, hit(0, 2)), memory)
    order = (2, 1, 0, 3)
    assert got[: PAGES * 24] == b"".join(memory[page * 24 : page * 24 + 24] for page in order)


@pytest.mark.parametrize("last_rows", [1, 3, 4])
def test_valid_rows_are_reversed_in_every_segment(last_rows: int) -> None:
    copies, memory = room()
    got = play(reverse_rows(copies, LAYOUT, PAGES, last_rows), memory)
    for page in range(PAGES):
        rows = last_rows if page == PAGES - 1 else 4
        for row in range(4):
            for start, size in ((0, 4), (16, 2)):
                at = page * 24 + start + row * size
                other = page * 24 + start + (rows - 1 - row) * size
                expected = memory[other : other + size] if row < rows else b"\xff" * size
                assert got[at : at + size] == expected


def test_narrow_rows_go_to_the_front_of_wide_ones() -> None:
    side = Pages({0: 0}, (0, 1))
    copies = page_copies("kv", 8, side, side, target_page_bytes=16)
    memory = bytes(range(16)) + bytes(16)
    got = play(slice_rows(copies, 2, 4, 8), memory)
    assert got == b"".join(memory[at : at + 4] + b"\xff" * 4 for at in (0, 4, 8, 12))
