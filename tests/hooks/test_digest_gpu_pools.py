from __future__ import annotations

import random
import threading
from itertools import pairwise

import pytest

from pd_tracer_hooks.digest.backend import ScratchFull
from pd_tracer_hooks.digest.gpu.pools import GRAIN, Arena, Events


def test_blocks_do_not_overlap_and_all_comes_back():
    arena = Arena(1000 * GRAIN)
    chance = random.Random(3)
    held: list[tuple[int, int]] = []
    refused = 0
    for _ in range(4000):
        if held and chance.random() < 0.5:
            arena.give(held.pop(chance.randrange(len(held))))
        else:
            wanted = chance.randrange(1, 120 * GRAIN)
            try:
                block = arena.take(wanted)
            except ScratchFull:
                refused += 1
                continue
            assert block[1] >= wanted
            assert block[0] % GRAIN == 0
            held.append(block)
        ordered = sorted(held)
        assert all(sum(one) <= other[0] for one, other in pairwise(ordered))
        assert arena.free_words() == arena.words - sum(size for _, size in held)
    assert refused
    for block in held:
        arena.give(block)
    assert arena.take(arena.words) == (0, arena.words)


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 1, 0), (1, 0, 2), (0, 2, 1), (1, 2, 0), (2, 0, 1)])
def test_neighbours_grow_together(order):
    arena = Arena(3 * GRAIN)
    blocks = [arena.take(GRAIN) for _ in range(3)]
    for index in order:
        arena.give(blocks[index])
    assert arena.take(3 * GRAIN) == (0, 3 * GRAIN)


def test_full_says_how_much_is_missing():
    arena = Arena(4 * GRAIN)
    arena.take(3 * GRAIN)
    with pytest.raises(
        ScratchFull, match=r"needs 256 bytes of scratch, 128 of 512 are free: trace fewer rooms"
    ):
        arena.take(GRAIN + 1)
    assert arena.free_words() == GRAIN


def test_many_threads():
    arena = Arena(64 * GRAIN)

    def work(seed: int) -> None:
        chance = random.Random(seed)
        for _ in range(500):
            block = arena.take(chance.randrange(1, 8 * GRAIN))
            arena.give(block)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert arena.take(arena.words) == (0, arena.words)


def test_events_are_made_once():
    made = iter(range(100, 200))
    events = Events(lambda: next(made), 2)
    first, second = events.take(), events.take()
    assert {first, second} == {100, 101}
    with pytest.raises(ScratchFull, match="2 digests are under way"):
        events.take()
    events.give(first)
    assert events.take() == first
