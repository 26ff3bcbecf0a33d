"""Adding up what one side reported of one component, until its layers x pages are covered.

Parts (chunks, pipeline ranks, page shards) come in any order and perhaps twice. Raw sums of disjoint
parts add modulo 2**64. What cannot be added becomes a :class:`Finding` of its own and blames nobody.
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
from tracer.join.finding import Finding
from tracer.join.model import Entry, Verdict
from tracer.join.wording import join_words, layers_text, pages_text, workers_text

REGIONS = ("head", "tail", "body")

#: Head, tail and body as they stand in a part.
SUMS = struct.Struct("<3Q")

Triple = tuple[int, int, int]


class Part(Struct, frozen=True, gc=False):
    """One component of one look, and the worker who looked."""

    worker: str
    digest: ComponentDigest
    tokens: int | None


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
    #: Why the parts cannot be compared, whatever the other side says.
    problem: Finding | None

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
    extent = _extent(parts)
    if extent.repeated:
        parts = _distinct(parts)
        extent = _extent(parts)
    tally = _Tally()
    for part in parts:
        tally.count(part)
    side_sum = SideSum(
        side=side,
        pages=max(tally.pages),
        k=max(tally.ks),
        coverage=extent.coverage,
        signatures=tuple(sorted(tally.signatures)),
        layers=extent.layers,
        complete=extent.complete,
        sums=(tally.head & MASK, tally.tail & MASK, tally.body & MASK),
        cells=(tally.head_cells, tally.tail_cells, tally.body_cells),
        parts=parts,
        workers=sorted(tally.workers),
        tokens=_agreed(tally.tokens),
        last_rows=_agreed(tally.last_rows),
        start=_agreed(tally.starts) or 0,
        freed=sorted(tally.freed),
        ownership_unknown=tally.ownership_unknown,
        problem=_problem(side, tally, extent),
    )
    if side_sum.complete and side_sum.problem is None:
        return _with_count_check(side_sum)
    return side_sum


class _Tally:
    """What parts add up to, and every value that they state of what should be one."""

    __slots__ = (
        "body",
        "body_cells",
        "freed",
        "head",
        "head_cells",
        "ks",
        "last_rows",
        "malformed",
        "ownership_unknown",
        "pages",
        "signatures",
        "starts",
        "tail",
        "tail_cells",
        "tokens",
        "workers",
    )

    def __init__(self) -> None:
        self.head = self.tail = self.body = 0
        self.head_cells = self.tail_cells = self.body_cells = 0
        self.pages: set[int] = set()
        self.ks: set[int] = set()
        self.signatures: set[str] = set()
        self.workers: set[str] = set()
        self.tokens: set[int | None] = set()
        self.last_rows: set[int | None] = set()
        self.starts: set[int | None] = set()
        self.freed: set[str] = set()
        self.malformed: set[str] = set()
        self.ownership_unknown = False

    def count(self, part: Part) -> None:
        digest = part.digest
        self.pages.add(digest.pages)
        self.ks.add(digest.k)
        self.signatures.add(digest.signature)
        self.workers.add(part.worker)
        self.tokens.add(part.tokens)
        self.last_rows.add(digest.last_rows)
        self.starts.add(digest.start or None)
        owned = digest.owned
        if owned is Owned.no:
            self.freed.add(part.worker)
        elif owned is Owned.unknown:
            self.ownership_unknown = True
        cells = digest.cells
        if len(digest.sums) != SUMS.size or len(cells) != len(REGIONS):
            self.malformed.add(part.worker)
            return
        head, tail, body = SUMS.unpack(digest.sums)
        self.head += head
        self.tail += tail
        self.body += body
        self.head_cells += cells[0]
        self.tail_cells += cells[1]
        self.body_cells += cells[2]


def _extent(parts: Sequence[Part]) -> Extent:
    return extent_of([part.digest for part in parts])


def _distinct(parts: Sequence[Part]) -> list[Part]:
    """Leave out parts that were reported again with the same content.

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


def _agreed(stated: set[int | None]) -> int | None:
    """The one value that all who state one agree on, or None."""
    if len(stated) == 1:
        return next(iter(stated))
    values = stated - {None}
    return values.pop() if len(values) == 1 else None


def _problem(side: str, tally: _Tally, extent: Extent) -> Finding | None:
    if tally.malformed:
        who = workers_text(side, sorted(tally.malformed))
        return Finding(Verdict.incomparable, f"{who} sent sums for other than head, tail and body")
    for values, noun in ((tally.pages, "pages"), (tally.ks, "pages in head and tail")):
        if len(values) > 1:
            stated = join_words([str(value) for value in sorted(values)])
            return Finding(
                Verdict.ambiguous,
                f"the parts of {workers_text(side, sorted(tally.workers))} state {stated} {noun}: "
                "they may be of several transfers",
            )
    if extent.repeated:
        return Finding(
            Verdict.ambiguous,
            f"{workers_text(side, sorted(tally.workers))} reported {pages_text(extent.repeated)} of "
            f"{layers_text(extent.repeated_layers)} more than once, with different sums: "
            "the parts may be of several transfers",
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
    problem = Finding(Verdict.incomparable, f"{side.who} counts {join_words(wrong)}{more}")
    return replace(side, problem=problem)


def _pages_of(side: SideSum) -> intervals.Spans:
    return intervals.from_runs([run for part in side.parts for run in part.digest.runs])
