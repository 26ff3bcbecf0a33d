"""Whose bytes are in a victim's pages: other rooms' page digests, looked for where the victim's are wrong."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

from tracer.join import intervals
from tracer.join.details import Cell
from tracer.join.model import Donor, How


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
    return Donor(
        room=room,
        how=How.digests,
        page_runs=intervals.to_runs(intervals.merged((page, page + 1) for _, page in hits)),
        layers=sorted({layer for layer, _ in hits}),
        key=key,
        held_from=held_from,
        held_until=held_until,
    )
