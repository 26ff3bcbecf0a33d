"""Adding up what one side reported of one component, until its layers x pages are covered.

Parts (chunks, pipeline ranks, page shards) come in any order and perhaps twice. Raw sums of disjoint
parts add modulo 2**64. What cannot be added becomes a :class:`Problem`, which is a verdict of its own and
blames nobody.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from pd_tracer_hooks.digest.definition import MASK
from pd_tracer_hooks.wire import ComponentDigest, Coverage, Observation, Owned
from tracer.join import intervals
from tracer.join.extent import Extent, extent_of
from tracer.join.model import Entry, Verdict
from tracer.join.wording import join_words, layers_text, pages_text, workers_text

REGIONS = ("head", "tail", "body")

_THREE = struct.Struct("<3Q")

Triple = tuple[int, int, int]


class Part(Struct, frozen=True, gc=False):
    """One component of one look, and the worker who looked."""

    worker: str
    digest: ComponentDigest
    tokens: int | None


class Problem(Struct, frozen=True):
    """Why one side's parts cannot be compared, whatever the other side says."""

    verdict: Verdict
    reason: str


class SideSum(Struct, frozen=True):
    """One side's parts of one component, added up. ``sums`` and ``cells``: head, tail, body, raw."""

    side: str
    pages: int
    k: int
    coverage: Coverage
    signatures: tuple[str, ...]
    #: Global layer ids, sorted.
    layers: list[int]
    complete: bool
    sums: Triple
    cells: Triple
    parts: list[Part]
    workers: list[str]
    #: What the side says of the transfer's size beside P; None or empty where it does not.
    tokens: int | None
    last_rows: int | None
    start: int
    #: Workers whose pages were no longer the room's when they were read.
    freed: list[str]
    ownership_unknown: bool
    problem: Problem | None

    @property
    def who(self) -> str:
        """The side and its workers, as a sentence names them."""
        return workers_text(self.side, self.workers)


def gather(entries: Iterable[Entry]) -> dict[str, list[Part]]:
    """The parts of each component in ``entries``, all of them observations of one side and stage."""
    parts: dict[str, list[Part]] = {}
    for entry in entries:
        look = entry.record
        if isinstance(look, Observation):
            for digest in look.components:
                parts.setdefault(digest.name, []).append(Part(entry.worker.id, digest, look.tokens))
    return parts


def add_up(side: str, parts: list[Part]) -> SideSum:
    """Add the parts of one component. ``parts`` must not be empty."""
    if len(parts) > 1:
        parts = _distinct(parts)
    first = parts[0].digest
    coverage = _common_coverage(parts)
    extent = extent_of([part.digest for part in parts], first.pages, first.k, coverage)
    sums, cells = _add(parts)
    side_sum = SideSum(
        side=side,
        pages=first.pages,
        k=first.k,
        coverage=coverage,
        signatures=_different(part.digest.signature for part in parts),
        layers=extent.layers,
        complete=extent.complete,
        sums=sums,
        cells=cells,
        parts=parts,
        workers=list(_different(part.worker for part in parts)),
        tokens=_agreed(part.tokens for part in parts),
        last_rows=_agreed(part.digest.last_rows for part in parts),
        start=_agreed(part.digest.start or None for part in parts) or 0,
        freed=list(_different(part.worker for part in parts if part.digest.owned is Owned.no)),
        ownership_unknown=any(part.digest.owned is Owned.unknown for part in parts),
        problem=_problem(side, parts, extent),
    )
    if side_sum.complete and side_sum.problem is None:
        return _with_count_check(side_sum)
    return side_sum


def _distinct(parts: list[Part]) -> list[Part]:
    """Leave out parts that were reported again with the same content, and put the rest in one order.

    Two looks at the same cells that differ only in what they carry beside the sums count once as well; the
    richer one stays, so that the difference can be located.
    """
    kept: dict[Any, Part] = {}
    for part in parts:
        digest = part.digest
        key = (
            tuple(digest.runs),
            tuple(digest.layers),
            bytes(digest.sums),
            tuple(digest.cells),
            digest.pages,
            digest.k,
            digest.signature,
            digest.owned.value,
        )
        other = kept.get(key)
        if other is None or _richness(part) > _richness(other):
            kept[key] = part
    return [kept[key] for key in sorted(kept)]


def _richness(part: Part) -> tuple[int, int, str]:
    return len(part.digest.layer_sums), len(part.digest.buckets), part.worker


def _common_coverage(parts: Sequence[Part]) -> Coverage:
    for part in parts:
        if part.digest.coverage is Coverage.ends:
            return Coverage.ends
    return Coverage.full


def _different(values: Iterable[str]) -> tuple[str, ...]:
    return tuple(sorted(set(values)))


def _agreed(values: Iterable[int | None]) -> int | None:
    """The one value that all who state one agree on, or None."""
    stated = {value for value in values if value is not None}
    return stated.pop() if len(stated) == 1 else None


def _add(parts: Sequence[Part]) -> tuple[Triple, Triple]:
    head = tail = body = heads = tails = bodies = 0
    for part in parts:
        digest = part.digest
        if len(digest.sums) != _THREE.size or len(digest.cells) != len(REGIONS):
            continue  # reported by _problem
        a, b, c = _THREE.unpack(digest.sums)
        head, tail, body = head + a, tail + b, body + c
        a, b, c = digest.cells
        heads, tails, bodies = heads + a, tails + b, bodies + c
    return (head & MASK, tail & MASK, body & MASK), (heads, tails, bodies)


def _problem(side: str, parts: Sequence[Part], extent: Extent) -> Problem | None:
    for part in parts:
        if len(part.digest.sums) != _THREE.size or len(part.digest.cells) != len(REGIONS):
            who = workers_text(side, [part.worker])
            return Problem(Verdict.incomparable, f"{who} sent sums for other than head, tail and body")
    if len(parts) == 1:
        return None
    for field in ("pages", "k"):
        values = sorted({int(getattr(part.digest, field)) for part in parts})
        if len(values) > 1:
            noun = "pages" if field == "pages" else "pages in head and tail"
            return Problem(
                Verdict.ambiguous,
                f"the parts of {workers_text(side, _different(part.worker for part in parts))} state "
                f"{join_words([str(value) for value in values])} {noun}: they may be of several transfers",
            )
    if extent.repeated:
        return Problem(
            Verdict.ambiguous,
            f"{workers_text(side, _different(part.worker for part in parts))} reported "
            f"{pages_text(extent.repeated)} of {layers_text(extent.repeated_layers)} more than once, "
            "with different sums: the parts may be of several transfers",
        )
    return None


def _with_count_check(side: SideSum) -> SideSum:
    """Hold the reported cell counts against the declared layers x pages."""
    layers, k, pages = len(side.layers), side.k, side.pages
    ends = layers * min(k, pages)
    expected = (ends, ends, layers * pages if side.coverage is Coverage.full else side.cells[2])
    if side.cells == expected:
        return side
    wrong = [
        f"{count} cells in the {name} instead of {right}"
        for name, count, right in zip(REGIONS, side.cells, expected, strict=True)
        if count != right
    ]
    outside = intervals.without(_pages_of(side), intervals.region("body", pages, k))
    more = f" and names {pages_text(outside)} of {pages}" if outside else ""
    problem = Problem(Verdict.incomparable, f"{side.who} counts {join_words(wrong)}{more}")
    return replace(side, problem=problem)


def _pages_of(side: SideSum) -> intervals.Spans:
    return intervals.from_runs(run for part in side.parts for run in part.digest.runs)
