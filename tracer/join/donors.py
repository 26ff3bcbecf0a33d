"""Whose bytes are in a victim's pages: other rooms' page digests, looked for where the victim's are wrong."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

from tracer.join import intervals
from tracer.join.details import Cell
from tracer.join.model import Donor, How

#: Sets of layers that are tried, at most.
MAX_CHOICES = 256


def found_in(
    room: str,
    sent: Iterable[Mapping[Cell, int]],
    *,
    victim_sent: Mapping[Cell, int],
    victim_received: Mapping[Cell, int],
    key: str = "",
    held_from: float | None = None,
    held_until: float | None = None,
) -> Donor | None:
    """Room ``room`` as a donor of one component, if digests that it ``sent`` are in the victim's wrong cells.

    A page digest says nothing of the page's place, so a donor's page 7 is found in the victim's page 40; it
    is looked for in the same layer. What proves nothing is passed over: bytes that the victim itself sent in
    that layer, and bytes that several of the donor's pages have (zeros, padding).
    """
    theirs: Counter[tuple[int, int]] = Counter(
        (layer, digest) for cells in sent for (layer, _), digest in cells.items()
    )
    own = {(layer, digest) for (layer, _), digest in victim_sent.items()}
    hits = [
        (layer, page)
        for (layer, page), digest in victim_received.items()
        if victim_sent.get((layer, page), digest) != digest
        and theirs[layer, digest] == 1
        and (layer, digest) not in own
    ]
    if not hits:
        return None
    layers, pages = _rectangle(hits)
    return Donor(
        room=room,
        how=How.digests,
        page_runs=intervals.to_runs(intervals.merged((page, page + 1) for page in pages)),
        layers=sorted(layers),
        key=key,
        held_from=held_from,
        held_until=held_until,
    )


def _rectangle(hits: Iterable[Cell]) -> tuple[frozenset[int], list[int]]:
    """Layers and pages of which every cell is a hit, as many as can be had with the layers of one page.

    A donor is named by layers and pages; what is no hit must not be among them.
    """
    layers_of: dict[int, set[int]] = {}
    for layer, page in hits:
        layers_of.setdefault(page, set()).add(layer)
    choices = sorted({frozenset(layers) for layers in layers_of.values()}, key=sorted)[:MAX_CHOICES]
    found = [(layers, [page for page, has in layers_of.items() if layers <= has]) for layers in choices]
    return max(found, key=lambda one: len(one[0]) * len(one[1]))
