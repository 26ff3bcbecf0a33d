"""From a look to an observation, against sums computed by the definition."""

from __future__ import annotations

import dataclasses
import itertools
import random
from collections.abc import Sequence

import pytest

from pd_tracer_hooks.capture import ComponentLook, Look, Plan, Read, launch, observation
from pd_tracer_hooks.digest.backend import Pool
from pd_tracer_hooks.digest.cpu import CpuBackend
from pd_tracer_hooks.digest.definition import bucket_edges, cell_sum, page_digest, row_sum
from pd_tracer_hooks.layout import PageLayout, Segment, signature
from pd_tracer_hooks.u64s import U64s
from pd_tracer_hooks.wire import Coverage, Observation, Owned, Stage, decoder, encode

LAYOUT = PageLayout(48, 4, (Segment(0, 8), Segment(32, 4)))
PAGES_HELD = 40
LAYERS = (2, 5, 9)
KEY = "0" * 16


def pool(name: str = "index_k") -> Pool:
    rng = random.Random(3)
    return Pool(name, LAYOUT, {layer: rng.randbytes(PAGES_HELD * LAYOUT.page_bytes) for layer in LAYERS})


def plan(*, full: bool = True, k: int = 2, layer_choice: str = "all", layer_sums: bool = False) -> Plan:
    return Plan(
        full=full,
        k=k,
        layer_choice=layer_choice,
        layer_sums=layer_sums,
        model_layers=12,
        owning_layers={"index_k": LAYERS},
    )


def see(look: Look, plan: Plan, **totals: int) -> Observation:
    reads = [
        Read(each.look, each.ordinals, each.physical, each.pending.result())
        for each in launch(CpuBackend(), plan, look)
    ]
    return observation(look, plan, reads, totals=totals, seq=7, owned=Owned.yes)


def look_at(pages: Sequence[int], **changes: object) -> Look:
    values: dict[str, object] = {"pool": pool(), "pages": pages, "total_pages": len(pages)}
    component = ComponentLook(**(values | changes))  # type: ignore[arg-type]
    return Look(room="r", keys=["0" * 16], stage=Stage.send, components=[component])


def digest(held: Pool, layer: int, page: int, rows: int | None = None) -> int:
    start = page * LAYOUT.page_bytes
    data = held.buffers[layer][start : start + LAYOUT.page_bytes]
    return page_digest(*LAYOUT.valid_parts(data, rows))


def cells(
    pages: Sequence[int], ordinals: Sequence[int], last_rows: int | None = None
) -> list[tuple[int, int, int]]:
    held, last = pool(), max(ordinals)
    return [
        (layer, ordinal, digest(held, layer, page, last_rows if ordinal == last else None))
        for layer in LAYERS
        for page, ordinal in zip(pages, ordinals, strict=True)
    ]


def test_a_whole_transfer_at_full_coverage() -> None:
    pages = [31, 4, 5, 6, 20, 0, 1]
    seen = see(look_at(pages, last_rows=3), plan(layer_sums=True)).components[0]
    expected = cells(pages, range(7), last_rows=3)
    head = [cell for cell in expected if cell[1] < 2]
    tail = [cell for cell in expected if cell[1] >= 5]
    assert seen.sums == U64s.of(map(cell_sum, (head, tail, expected)))
    assert seen.cells == [6, 6, 21]
    edges = bucket_edges(7)
    assert seen.buckets == U64s.of(
        cell_sum(cell for cell in expected if edges[b] <= cell[1] < edges[b + 1]) for b in range(7)
    )
    assert seen.layer_sums == U64s.of(
        row_sum((page, value) for at, page, value in region if at == layer)
        for layer in LAYERS
        for region in (head, tail, expected)
    )
    assert (seen.pages, seen.layers, seen.runs) == (7, list(LAYERS), [(0, 7)])
    assert (seen.coverage, seen.k, seen.owned, seen.last_rows) == (Coverage.full, 2, Owned.yes, 3)
    assert seen.physical == [(31, 1), (4, 3), (20, 1), (0, 2)]


@pytest.mark.parametrize("full", [True, False])
def test_chunks_add_up_to_the_whole(full: bool) -> None:
    pages = list(range(3, 16))
    whole = see(look_at(pages, last_rows=1), plan(full=full)).components[0]
    edges = [0, 5, 9, 13]
    parts = []
    for first, end in itertools.pairwise(edges):
        last = end == 13
        look = look_at(
            pages[first:end], first=first, total_pages=13, last=last, last_rows=1 if last else None
        )
        parts += [see(look, plan(full=full)).components[0]] if full or first in (0, 9) else []
    added = [sum(part.sums.values()[at] for part in parts) & (2**64 - 1) for at in range(3)]
    assert added == list(whole.sums.values())
    assert [sum(part.cells[at] for part in parts) for at in range(3)] == whole.cells


def test_at_ends_only_head_and_tail_are_read() -> None:
    pages = list(range(20))
    (launched,) = launch(CpuBackend(), plan(full=False), look_at(pages))
    assert list(launched.ordinals) == [0, 1, 18, 19]
    seen = see(look_at(pages), plan(full=False)).components[0]
    assert seen.coverage is Coverage.ends
    assert seen.runs == [(0, 2), (18, 2)]
    assert seen.cells == [6, 6, 0]
    assert seen.buckets == U64s()


def test_at_ends_a_chunk_in_the_middle_is_left_out() -> None:
    assert launch(CpuBackend(), plan(full=False), look_at(range(5, 9), first=5, total_pages=20)) == []


def test_an_unknown_page_count_keeps_every_page_until_it_is_known() -> None:
    look = look_at(range(6), total_pages=None, first=4)
    (launched,) = launch(CpuBackend(), plan(full=False), look)
    assert list(launched.ordinals) == [4, 5, 6, 7, 8, 9]
    with pytest.raises(KeyError, match="index_k"):
        see(look, plan(full=False))
    known = see(look, plan(full=False), index_k=10).components[0]
    assert (known.pages, known.cells) == (10, [0, 6, 0])


def test_a_transfer_without_pages_is_still_reported() -> None:
    seen = see(look_at([]), plan()).components[0]
    assert (seen.pages, seen.cells, seen.runs) == (0, [0, 0, 0], [])


@pytest.mark.parametrize(
    ("choice", "asked", "expected"),
    [("all", None, (2, 5, 9)), ("ends", None, (2, 5, 9)), ("all", (5, 6), (5,)), ("all", (1,), ())],
)
def test_layers_are_those_chosen_and_held(
    choice: str, asked: tuple[int, ...] | None, expected: tuple[int, ...]
) -> None:
    launched = launch(CpuBackend(), plan(layer_choice=choice), look_at([1], layers=asked))
    assert tuple(layer for each in launched for layer in each.pending.result().layers) == expected


def test_rotating_layers_are_the_same_on_every_rank() -> None:
    whole = plan(layer_choice="rotate:2")
    held = pool()
    ranks = [Pool("index_k", LAYOUT, {n: held.buffers[n] for n in part}) for part in ((2,), (5, 9))]
    for room in map(str, range(20)):
        together = [
            layer
            for rank in ranks
            for layer in whole.layers(ComponentLook(pool=rank, pages=[1], total_pages=1), room)
        ]
        assert tuple(together) == whole.layers(ComponentLook(pool=held, pages=[1], total_pages=1), room)
        assert len(together) == 2


def test_the_signature_is_that_of_the_manifest() -> None:
    seen = see(look_at([1]), plan()).components[0]
    assert seen.signature == signature(plan().signature_fields(pool()))
    assert seen.signature != see(look_at([1]), plan(k=3)).components[0].signature


@pytest.mark.parametrize(
    "changes", [{"pages": [PAGES_HELD]}, {"pages": [-1]}, {"pages": [0], "last_rows": 0}]
)
def test_what_cannot_be_read_fails_in_the_result_and_not_in_the_launch(changes: dict[str, object]) -> None:
    values = {"total_pages": 1} | changes
    (launched,) = launch(CpuBackend(), plan(), look_at(values.pop("pages"), **values))  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"page|rows"):
        launched.pending.result()


@pytest.mark.parametrize("full", [True, False])
def test_pages_may_be_a_numpy_array_and_are_the_caller_s_to_change(full: bool) -> None:
    numpy = pytest.importorskip("numpy")
    pages = numpy.array([9, 4, 5, 6, 7], numpy.int32)
    expected = see(look_at(pages.tolist()), plan(full=full))
    (launched,) = launch(CpuBackend(), plan(full=full), look_at(pages))
    pages[:] = 0
    read = Read(launched.look, launched.ordinals, launched.physical, launched.pending.result())
    seen = observation(look_at([]), plan(full=full), [read], totals={}, seq=7, owned=Owned.yes)
    assert encode(seen.components) == encode(expected.components)


def test_what_an_engine_calls_things_is_made_to_fit() -> None:
    look = look_at([1])
    look = dataclasses.replace(look, keys=[KEY, KEY], request="q\ud800", trace="t" * 300, peer="p\0")
    seen = see(look, plan())
    assert (seen.keys, seen.request, seen.trace, seen.peer) == ([KEY], "q?", "t" * 256, "p?")
    assert decoder(Observation).decode(encode(seen)) == seen
