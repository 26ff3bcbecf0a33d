"""Page digests that were asked for, held against the sums of the observation they are said to be behind.

A detail names its stage and look, which a room that is used again has more than once. So it is believed only
for the part whose sums its digests fold to; no other detail of the room can do that.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from msgspec import Struct, structs

from pd_tracer_hooks.digest.backend import PageDigests
from pd_tracer_hooks.digest.fold import Folded, fold
from pd_tracer_hooks.runs import expand
from pd_tracer_hooks.u64s import U64s
from pd_tracer_hooks.wire import ComponentDigest, Coverage, Detail
from tracer.join import intervals
from tracer.join.parts import Part

#: (global layer id, page ordinal).
Cell = tuple[int, int]


class CellMap(Struct, frozen=True):
    """Page digests of one look, and order-free sums where the workers had them, by cell."""

    digests: dict[Cell, int]
    order_free: dict[Cell, int]
    #: Details that were said to belong here and fold to none of the look's sums.
    strange: int = 0


NO_CELLS = CellMap({}, {})


def cell_map(parts: Sequence[Part], details: Iterable[tuple[str, Detail]]) -> CellMap:
    """The cells of a look's ``parts`` that ``details`` (worker id, detail) know."""
    digests: dict[Cell, int] = {}
    order_free: dict[Cell, int] = {}
    believed: list[Detail] = []
    others: list[tuple[str, Detail]] = []
    for worker, detail in details:
        if detail.gone:
            continue
        if _is_behind_one(worker, detail, parts):
            believed.append(detail)
        else:
            others.append((worker, detail))
    strange = 0
    for worker, pieces in _sequences(others):
        if len(pieces) > 1 and _is_behind_one(worker, whole := _put_together(pieces), parts):
            believed.append(whole)
        else:
            strange += len(pieces)
    for detail in believed:
        digests.update(_by_cell(detail, detail.digests))
        if len(detail.order_free) == len(detail.digests):
            order_free.update(_by_cell(detail, detail.order_free))
    return CellMap(digests, order_free, strange) if digests or strange else NO_CELLS


def folded(
    data: bytes,
    layers: Sequence[int],
    ordinals: Sequence[int],
    like: ComponentDigest,
    *,
    layer_sums: bool = False,
) -> Folded | None:
    """Sum page digests as ``like`` was summed; None if they cannot be."""
    try:
        return fold(
            PageDigests(tuple(layers), len(ordinals), data, 0.0, 0.0),
            ordinals=ordinals,
            total_pages=like.pages,
            k=like.k,
            full=like.coverage is Coverage.full,
            layer_sums=layer_sums,
        )
    except ValueError:
        return None


def _sequences(details: Iterable[tuple[str, Detail]]) -> list[tuple[str, list[Detail]]]:
    """Details that may be pieces of one: a large one is sent layers by layers, in consecutive records."""
    found: list[tuple[str, list[Detail]]] = []
    for worker, detail in sorted(details, key=lambda each: (each[0], each[1].seq)):
        if found and found[-1][0] == worker:
            last = found[-1][1][-1]
            layers = {layer for piece in found[-1][1] for layer in piece.layers}
            follows = detail.seq == last.seq + 1 and detail.runs == last.runs and detail.keys == last.keys
            if follows and layers.isdisjoint(detail.layers):
                found[-1][1].append(detail)
                continue
        found.append((worker, [detail]))
    return found


def _put_together(pieces: Sequence[Detail]) -> Detail:
    return structs.replace(
        pieces[0],
        layers=[layer for piece in pieces for layer in piece.layers],
        digests=U64s(b"".join(piece.digests for piece in pieces)),
        order_free=U64s(b"".join(piece.order_free for piece in pieces)),
    )


def _is_behind_one(worker: str, detail: Detail, parts: Iterable[Part]) -> bool:
    return any(part.worker == worker and _is_behind(detail, part.digest) for part in parts)


def _is_behind(detail: Detail, part: ComponentDigest) -> bool:
    if sorted(detail.layers) != sorted(part.layers):
        return False
    if intervals.from_runs(detail.runs) != intervals.from_runs(part.runs):
        return False
    if len(detail.digests) != 8 * len(detail.layers) * intervals.size(intervals.from_runs(part.runs)):
        return False
    found = folded(bytes(detail.digests), detail.layers, expand(detail.runs), part)
    return found is not None and found.sums == part.sums


def _by_cell(detail: Detail, values: U64s) -> Iterable[tuple[Cell, int]]:
    cells = ((layer, page) for layer in detail.layers for page in expand(detail.runs))
    return zip(cells, values.values(), strict=True)
