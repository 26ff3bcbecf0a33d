from collections import Counter

import pytest

from tracer.demo.geometry import INDEX_K, KV, Geometry, shape_of
from tracer.demo.plan import (
    KINDS,
    PREFILL,
    PREFILL_HEAD_SLICE,
    PREFILL_WITHOUT_INDEX,
    Fault,
    Mix,
    PlannedRoom,
    make_plan,
)

GEOMETRY = Geometry()


def kinds(plan: list[PlannedRoom]) -> Counter[Fault | None]:
    return Counter(room.fault for room in plan)


@pytest.mark.parametrize("seed", range(5))
def test_default_mix_has_every_fault_and_mostly_intact_rooms(seed: int) -> None:
    plan = make_plan(Mix(seed=seed), GEOMETRY)
    found = kinds(plan)
    assert set(found) == {None, *KINDS, Fault.aborted_in_flight}
    assert found[None] > len(plan) / 2
    assert [room.index for room in plan] == list(range(len(plan)))


@pytest.mark.parametrize(
    ("mix", "expected"),
    [
        (Mix(rooms=10, faults=(), rate=0.9), {None: 10}),
        (Mix(rooms=10, rate=0), {None: 10}),
        (Mix(rooms=10, faults=(Fault.bit_flip,), rate=0.3), {None: 7, Fault.bit_flip: 3}),
        # Each kind at least once, whatever the rate; a kind given twice is one kind.
        (
            Mix(rooms=10, faults=(Fault.aborted, Fault.bit_flip, Fault.aborted), rate=0.01),
            {None: 8, Fault.aborted: 1, Fault.bit_flip: 1},
        ),
        # A room that is used again moves twice.
        (Mix(rooms=4, faults=(Fault.room_reused,), rate=0.25), {None: 3, Fault.room_reused: 2}),
        (Mix(rooms=4, faults=(Fault.room_twice,), rate=0.25), {None: 3, Fault.room_twice: 2}),
        # A late write needs a room that it was meant for.
        (
            Mix(rooms=4, faults=(Fault.late_write,), rate=0.25),
            {None: 3, Fault.late_write: 1, Fault.aborted_in_flight: 1},
        ),
    ],
)
def test_proportions(mix: Mix, expected: dict[Fault | None, int]) -> None:
    assert kinds(make_plan(mix, GEOMETRY)) == expected


@pytest.mark.parametrize(
    ("mix", "message"),
    [
        (Mix(rooms=len(KINDS)), f"rooms={len(KINDS)}: {len(KINDS)} with a fault"),
        (Mix(rooms=4, faults=(Fault.bit_flip,), rate=1), "rooms=4: 4 with a fault"),
        (Mix(rate=1.5), "rate=1.5"),
        (Mix(max_tokens=319 * 64), "max_tokens=20416, rooms=60: a room of 319 pages and 1 pages"),
        (Mix(rooms=1000, faults=(Fault.never_sent,)), "94 pages and 400 pages that are never sent"),
    ],
)
def test_refuses_mixes_that_cannot_run(mix: Mix, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make_plan(mix, GEOMETRY)


def test_same_seed_same_plan() -> None:
    assert make_plan(Mix(seed=7), GEOMETRY) == make_plan(Mix(seed=7), GEOMETRY)
    assert make_plan(Mix(seed=7), GEOMETRY) != make_plan(Mix(seed=8), GEOMETRY)


@pytest.mark.parametrize("seed", range(20))
def test_order_lets_every_fault_happen(seed: int) -> None:
    plan = make_plan(Mix(rooms=40, seed=seed), GEOMETRY)
    assert plan[0].fault is None
    slow = [room.index for room in plan if room.fault in (Fault.never_received, Fault.never_sent)]
    assert slow == list(range(1, 1 + len(slow)))
    for room in plan:
        if room.fault is Fault.other_rooms_pages:
            assert any(earlier.fault is None for earlier in plan[: room.index])
        for other in (room.after, room.beside):
            if other >= 0:
                assert other < room.index
                assert (plan[other].room == room.room) == (room.fault is not Fault.late_write)
        if room.fault is Fault.late_write:
            assert plan[room.donor].fault is Fault.aborted_in_flight


@pytest.mark.parametrize("seed", range(20))
def test_lengths_suit_the_faults(seed: int) -> None:
    plan = make_plan(Mix(seed=seed), GEOMETRY)
    assert plan[0].tokens == 1
    for room in plan:
        shape = shape_of(room.tokens, GEOMETRY)
        if room.fault in (Fault.tail_unwritten, Fault.count_mismatch, Fault.other_rooms_pages):
            assert shape.pages > 1
        if room.fault in (Fault.aborted, Fault.late_write, Fault.chunks_late, Fault.sent_early):
            assert len(shape.chunks) > 1
        if room.fault is Fault.rows_reordered:
            assert shape.last_rows > 1  # a single row has no other order
    pages = [shape_of(room.tokens, GEOMETRY).pages for room in plan]
    assert max(pages) > GEOMETRY.chunk_pages
    assert any(shape_of(room.tokens, GEOMETRY).last_rows < GEOMETRY.rows for room in plan)


def test_some_faults_have_their_own_server() -> None:
    servers = {
        Fault.component_not_listed: PREFILL_WITHOUT_INDEX,
        Fault.head_slice: PREFILL_HEAD_SLICE,
    }
    for room in make_plan(Mix(), GEOMETRY):
        assert room.prefill == (servers.get(room.fault, PREFILL) if room.fault else PREFILL)


def test_rooms_are_unsigned_64_bit_numbers_as_text() -> None:
    numbers = [int(room.room) for room in make_plan(Mix(), GEOMETRY)]
    assert all(0 <= number < 1 << 64 for number in numbers)
    assert any(number >= 1 << 63 for number in numbers)


@pytest.mark.parametrize(
    ("tokens", "pages", "last_rows", "chunks"),
    [
        (1, 1, 1, ((0, 1),)),
        (64, 1, 64, ((0, 1),)),
        (65, 2, 1, ((0, 2),)),
        (256, 4, 64, ((0, 4),)),
        (257, 5, 1, ((0, 4), (4, 1))),
        (700, 11, 60, ((0, 4), (4, 4), (8, 3))),
    ],
)
def test_shapes(tokens: int, pages: int, last_rows: int, chunks: tuple[tuple[int, int], ...]) -> None:
    shape = shape_of(tokens, Geometry(chunk_pages=4))
    assert (shape.pages, shape.last_rows, shape.chunks) == (pages, last_rows, chunks)


def test_no_shape_without_tokens() -> None:
    with pytest.raises(ValueError, match="tokens=0"):
        shape_of(0, GEOMETRY)


def test_some_layers_own_no_index() -> None:
    assert GEOMETRY.layer_ids(KV) == (0, 1, 2, 3, 4, 5)
    assert GEOMETRY.layer_ids(INDEX_K) == (0, 2, 3, 5)
    assert GEOMETRY.page_bytes == 6 * 73_728 + 4 * 8_448
