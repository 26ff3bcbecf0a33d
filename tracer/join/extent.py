"""Which cells a set of parts declares: are they all there, and is any there twice."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from pd_tracer_hooks.wire import ComponentDigest, Coverage
from tracer.join import intervals
from tracer.join.intervals import Spans


class Extent(Struct, frozen=True):
    """The cells that one side's parts of a component declare."""

    #: ``full`` only when every part is.
    coverage: Coverage
    #: Global layer ids, sorted.
    layers: list[int]
    #: Whether every needed page of every layer is declared.
    complete: bool
    #: Pages that two different parts declare for the same layers; empty when the parts are disjoint.
    repeated: Spans
    repeated_layers: list[int]


def extent_of(parts: Sequence[ComponentDigest]) -> Extent:
    """The extent of ``parts``. Where they differ in P, k or coverage: the larger P and k, ``ends``."""
    pages, k, coverage = parts[0].pages, parts[0].k, parts[0].coverage
    for part in parts[1:]:
        pages, k = max(pages, part.pages), max(k, part.k)
        coverage = coverage if part.coverage is Coverage.full else Coverage.ends
    need = intervals.needed(pages, k, coverage)
    layers: list[int] = []
    complete = True
    repeated: Spans = []
    repeated_layers: list[int] = []
    for group, members in _layer_groups(parts):
        layers += group
        pieces = [intervals.from_runs(part.runs) for part in members]
        have = pieces[0]
        if len(pieces) > 1:
            have = intervals.merged([span for piece in pieces for span in piece])
            if not repeated and sum(map(intervals.size, pieces)) != intervals.size(have):
                repeated, repeated_layers = intervals.first_repeat(pieces), group
        complete = complete and intervals.covers(have, need)
    layers.sort()
    return Extent(coverage, layers, complete and (bool(layers) or not need), repeated, repeated_layers)


def _layer_groups(parts: Sequence[ComponentDigest]) -> list[tuple[list[int], list[ComponentDigest]]]:
    """Layers that the same parts declare, together with those parts."""
    first = parts[0].layers
    if all(part.layers == first for part in parts[1:]):
        return [(sorted(set(first)), list(parts))] if first else []
    members: dict[int, list[int]] = {}
    for index, part in enumerate(parts):
        for layer in set(part.layers):
            members.setdefault(layer, []).append(index)
    groups: dict[tuple[int, ...], list[int]] = {}
    for layer in sorted(members):
        groups.setdefault(tuple(members[layer]), []).append(layer)
    return [(layers, [parts[index] for index in indices]) for indices, layers in groups.items()]
