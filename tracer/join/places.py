"""The places at which two looks differ, as finely as both can tell, and how other looks compare there."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from typing import Protocol

from msgspec import Struct

from pd_tracer_hooks.digest.definition import bucket_edges
from pd_tracer_hooks.wire import Coverage
from tracer.join import intervals
from tracer.join.details import Cell
from tracer.join.parts import REGIONS, SideSum
from tracer.join.values import BODY, Key, Values

#: Cells that are classified one by one, at most. Of more the buckets are: so much damage needs no finer look.
MAX_CELLS = 16_384

HEAD, TAIL = REGIONS.index("head"), REGIONS.index("tail")


class Place(Struct, frozen=True):
    """Somewhere in the transfer. ``layers`` empty: over all of them."""

    key: Key
    #: Places that hold this one: if they are equal, so is this.
    within: tuple[Key, ...]
    layers: tuple[int, ...]
    first: int
    end: int

    @property
    def kind(self) -> str:
        """``cell``, ``bucket``, ``layer`` or ``region``."""
        return "layer" if self.key[0] == "row" else self.key[0]


class Source(Protocol):
    """What knows the values of places."""

    def get(self, key: Key) -> int | None:
        """The value of a place, or None."""
        ...


def same(one: Source, other: Source, place: Place) -> bool | None:
    """Whether two looks saw the same at a place; None if they cannot tell."""
    ours = one.get(place.key)
    if ours is not None:
        theirs = other.get(place.key)
        if theirs is not None:
            return ours == theirs
    for key in place.within:
        ours = one.get(key)
        if ours is not None and ours == other.get(key):
            return True
    return None


def differing(left: Values, right: Values, like: SideSum) -> list[Place]:
    """The places at which two looks are known to differ: cells, else buckets, else regions. In page order."""
    if equal(left, right, like):
        return []
    places = [place for place in _coarse(left, right, like) if same(left, right, place) is False]
    return _refined(places, left, right, like)


def differing_rows(left: Values, right: Values, like: SideSum) -> list[Place]:
    """The layers in which two looks are known to differ: over all pages, or over the ends that were read."""
    regions = (BODY,) if like.coverage is Coverage.full else (HEAD, TAIL)
    places = [_row(layer, region, like) for layer in like.layers for region in regions]
    return [place for place in places if same(left, right, place) is False]


def equal(left: Values, right: Values, like: SideSum) -> bool:
    """Whether two looks, of which ``left`` is whole, saw the same in every region."""
    regions = range(len(REGIONS)) if like.coverage is Coverage.full else (HEAD, TAIL)
    values = [left.get(("region", number, 0)) for number in regions]
    return values == [right.get(("region", number, 0)) for number in regions] and None not in values


def read_by(left: Values, right: Values, like: SideSum) -> list[Place]:
    """Buckets and regions that both looks read, whatever is in them."""
    regions = [_region(number, like) for number in range(len(REGIONS))]
    places = {place.key: place for place in (*_coarse(left, right, like), *regions)}
    known = [p for p in places.values() if left.get(p.key) is not None and right.get(p.key) is not None]
    return [place for place in known if place.first < place.end]


def _coarse(left: Values, right: Values, like: SideSum) -> list[Place]:
    if left.has_buckets and right.has_buckets:
        edges = bucket_edges(like.pages)
        return [
            Place(("bucket", b, 0), (("region", BODY, 0),), (), edges[b], edges[b + 1])
            for b in range(len(edges) - 1)
        ]
    return [_region(number, like) for number in range(len(REGIONS))]


def _region(number: int, like: SideSum) -> Place:
    spans = intervals.region(REGIONS[number], like.pages, like.k)
    first, end = spans[0] if spans else (0, 0)
    within: tuple[Key, ...] = () if number == BODY else (("region", BODY, 0),)
    return Place(("region", number, 0), within, (), first, end)


def _row(layer: int, region: int, like: SideSum) -> Place:
    whole = _region(region, like)
    return Place(("row", layer, region), (whole.key, *whole.within), (layer,), whole.first, whole.end)


def cells_in(places: Sequence[Place], left: Values, right: Values, like: SideSum) -> list[Cell]:
    """The differing cells of ``places``; empty if the page digests of any of them are not here."""
    if all(place.kind == "cell" for place in places):
        return [(place.layers[0], place.first) for place in places]
    found: dict[Cell, None] = {}
    for place in places:
        cells = _cells_of(place, left, right, like)
        if cells is None:
            return []
        found.update(dict.fromkeys(cells))
    return list(found)


def _refined(places: Sequence[Place], left: Values, right: Values, like: SideSum) -> list[Place]:
    """Replace places by the cells in them, where both looks know every one."""
    if not (left.cells.digests and right.cells.digests):
        return list(places)
    edges = bucket_edges(like.pages)
    refined: list[Place] = []
    found: dict[Cell, None] = {}
    for place in places:
        cells = _cells_of(place, left, right, like)
        if cells is None:
            refined.append(place)
        else:
            found.update(dict.fromkeys(cells))
    if len(found) > MAX_CELLS:
        return list(places)
    refined += [_cell(layer, page, like, edges) for layer, page in found]
    return sorted(refined, key=lambda place: (place.first, place.layers))


def _cells_of(place: Place, left: Values, right: Values, like: SideSum) -> list[Cell] | None:
    """The cells of a place that differ, or None if either look lacks one of its page digests."""
    ours, theirs = left.cells.digests, right.cells.digests
    cells = [(layer, page) for page in range(place.first, place.end) for layer in place.layers or like.layers]
    if not all(cell in ours and cell in theirs for cell in cells):
        return None
    return [cell for cell in cells if ours[cell] != theirs[cell]]


def _cell(layer: int, page: int, like: SideSum, edges: Sequence[int]) -> Place:
    within: list[Key] = [
        ("bucket", bisect_right(edges, page) - 1, 0),
        ("row", layer, BODY),
        ("region", BODY, 0),
    ]
    for region in (HEAD, TAIL):
        if intervals.covers(intervals.region(REGIONS[region], like.pages, like.k), [(page, page + 1)]):
            within += [("row", layer, region), ("region", region, 0)]
    return Place(("cell", layer, page), tuple(within), (layer,), page, page + 1)
