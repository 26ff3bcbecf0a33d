import pytest

from tracer.demo.copies import Copies, Pages, page_copies
from tracer.demo.damage import cut_tail, redirect
from tracer.demo.faults import Aim, aim, flip
from tracer.demo.geometry import INDEX_K, KV, LAYOUTS, MLA_KV, Geometry, shape_of
from tracer.demo.plan import Fault, PlannedRoom

GEOMETRY = Geometry(chunk_pages=4)
SEEDS = range(40)


def aimed(fault: Fault, tokens: int, seed: int) -> Aim:
    room = PlannedRoom(index=3, room="1", tokens=tokens, fault=fault, seed=seed)
    hit = aim(room, shape_of(tokens, GEOMETRY), GEOMETRY)
    assert hit is not None
    assert hit == aim(room, shape_of(tokens, GEOMETRY), GEOMETRY)
    return hit


def test_intact_rooms_are_left_alone() -> None:
    room = PlannedRoom(index=0, room="1", tokens=1, seed=1)
    assert aim(room, shape_of(1, GEOMETRY), GEOMETRY) is None


@pytest.mark.parametrize("tokens", [1, 65, 700])
@pytest.mark.parametrize("seed", SEEDS)
def test_a_flipped_bit_lies_in_valid_bytes(tokens: int, seed: int) -> None:
    hit = aimed(Fault.bit_flip, tokens, seed)
    shape = shape_of(tokens, GEOMETRY)
    (page,), (layer,) = hit.pages, hit.layers
    assert layer in GEOMETRY.layer_ids(hit.component)
    assert 0 <= page < shape.pages
    rows = shape.last_rows if page == shape.pages - 1 else 64
    spans = LAYOUTS[hit.component].valid_spans(rows)
    assert any(offset <= hit.offset < offset + length for offset, length in spans)


def test_bits_are_flipped_in_both_components_and_both_segments() -> None:
    hits = [aimed(Fault.bit_flip, 700, seed) for seed in SEEDS]
    assert {hit.component for hit in hits} == {KV, INDEX_K}
    assert {hit.offset >= 8192 for hit in hits if hit.component == INDEX_K} == {True, False}


@pytest.mark.parametrize("tokens", [65, 257, 700])
@pytest.mark.parametrize("seed", SEEDS)
def test_a_tail_is_cut_in_the_last_chunk_where_bytes_are_valid(tokens: int, seed: int) -> None:
    hit = aimed(Fault.tail_unwritten, tokens, seed)
    shape = shape_of(tokens, GEOMETRY)
    assert hit.pages == tuple(range(hit.pages[0], shape.pages))
    assert hit.pages[0] >= shape.chunks[-1][0]
    rows = shape.last_rows if len(hit.pages) == 1 else 64
    assert hit.offset % 4096 == 0
    assert hit.offset < rows * 1152
    assert hit.layers in (GEOMETRY.layer_ids(KV), *((layer,) for layer in GEOMETRY.layer_ids(KV)))


@pytest.mark.parametrize("seed", SEEDS)
def test_an_early_part_is_one_write(seed: int) -> None:
    hit = aimed(Fault.early_completion, 700, seed)
    assert hit.pages == (tuple(range(8, 11)) if hit.component == KV else tuple(range(11)))
    assert hit.layers == GEOMETRY.layer_ids(hit.component)


@pytest.mark.parametrize("fault", [Fault.component_withheld, Fault.component_not_listed])
def test_index_is_lost_as_a_whole(fault: Fault) -> None:
    hit = aimed(fault, 130, 1)
    assert (hit.component, hit.layers, hit.pages) == (INDEX_K, (0, 2, 3, 5), (0, 1, 2))


@pytest.mark.parametrize("tokens", [65, 700])
@pytest.mark.parametrize("seed", SEEDS)
def test_another_room_never_takes_all_pages(tokens: int, seed: int) -> None:
    hit = aimed(Fault.other_rooms_pages, tokens, seed)
    pages = shape_of(tokens, GEOMETRY).pages
    assert 0 < len(hit.pages) < pages
    assert hit.pages == tuple(range(hit.pages[0], hit.pages[0] + len(hit.pages)))
    assert hit.pages[-1] < pages


@pytest.mark.parametrize(
    "fault", [Fault.count_mismatch, Fault.never_received, Fault.never_sent, Fault.aborted, Fault.room_reused]
)
def test_some_faults_hit_the_room_as_a_whole(fault: Fault) -> None:
    hit = aimed(fault, 700, 1)
    assert (hit.component, hit.layers, hit.pages) == ("", (), ())


def four_pages() -> Copies:
    side = Pages({0: 0, 1: 1 << 30}, (0, 1, 2, 3))
    return page_copies(KV, MLA_KV.page_bytes, side, side)


def sizes(copies: Copies, layer: int) -> dict[int, int]:
    chosen = copies.layers == layer
    return dict(zip(copies.ordinals[chosen].tolist(), copies.size[chosen].tolist(), strict=True))


@pytest.mark.parametrize(
    ("offset", "left"), [(8192, {0: 73728, 1: 73728, 2: 8192}), (0, {0: 73728, 1: 73728})]
)
def test_cutting_the_tail(offset: int, left: dict[int, int]) -> None:
    hit = Aim(fault=Fault.tail_unwritten, component=KV, layers=(1,), pages=(2, 3), offset=offset)
    cut = cut_tail(four_pages(), hit)
    assert sizes(cut, 1) == left
    assert sizes(cut, 0) == sizes(four_pages(), 0)


def test_redirecting_touches_one_cell() -> None:
    hit = Aim(fault=Fault.bit_flip, component=KV, layers=(1,), pages=(2,))
    before, after = four_pages(), redirect(four_pages(), hit, source=12345)
    changed = before.source != after.source
    assert after.source[changed].tolist() == [12345]
    assert (after.layers[changed].tolist(), after.ordinals[changed].tolist()) == ([1], [2])
    assert after.target.tolist() == before.target.tolist()


def test_flipping() -> None:
    page = bytearray(4)
    flip(page, Aim(fault=Fault.bit_flip, offset=2, bit=5))
    assert page == bytes([0, 0, 32, 0])
