"""What the kernel is told about a pool, and where things lie in a call's block. Plain arithmetic.

A call uses one *block* of 64-bit words, the same on the host (pinned) and on the device::

    table    header: pages in the list, whether the last is partial; spans of the last page, of a full one
             addresses of the layers' buffers | global layer ids | physical pages | ordinals
    result   times: per slot the latest of (-start) and of (end) in ns of the GPU's timer
             cells named wrongly | copies of the cell sums of head, tail, 64 buckets
             copies of the row sums of head, tail, body by layer, if wanted
             page digests, row-major by layer

The table and the result's initial values go up in one copy; the result comes down in one.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import gcd

from pd_tracer_hooks.digest.definition import MAX_BUCKETS
from pd_tracer_hooks.layout import PageLayout

#: The kernel's programs spread their times over this many pairs of words, to keep out of each other's way.
TIME_SLOTS = 32
#: Sums are added up in so many copies, for the same reason, and the copies on the host.
COPIES = 8
#: Cell sums of head and tail, then of the buckets.
CELL_SUMS = 2 + MAX_BUCKETS
#: A time that no program has written.
NO_TIME = -(1 << 63)
#: Words of the header before its spans.
HEADER_FIXED = 2
#: (offset in the page, bytes, words before it): how a span is written into the header.
SPAN_WORDS = 3
#: A call of more cells than this fills the device with one warp a cell.
FEW_CELLS = 1200
#: Alignment beyond which nothing is gained: the widest load of a thread.
MAX_ALIGN = 16

Span = tuple[int, int, int]


def spans_of(layout: PageLayout, rows: int | None = None) -> tuple[Span, ...]:
    """The spans that a page with ``rows`` valid rows is digested from, neighbours merged.

    A segment starts on a new word, so one that ends on a whole word and is followed in memory by the next
    forms one span with it. Most full pages are a single span.
    """
    spans: list[Span] = []
    words = 0
    for offset, size in layout.valid_spans(rows):
        if spans and not spans[-1][1] % 8 and spans[-1][0] + spans[-1][1] == offset:
            start, before, first = spans.pop()
            spans.append((start, before + size, first))
        else:
            spans.append((offset, size, words))
        words += -(-size // 8)
    return tuple(spans)


def alignment(layout: PageLayout, addresses: Iterable[int]) -> int:
    """The largest power of two up to 16 that divides every address at which a span can start."""
    common = gcd(MAX_ALIGN, layout.page_bytes, *addresses)
    for segment in layout.segments:
        common = gcd(common, segment.offset)
    return common


@dataclass(frozen=True)
class Tuning:
    """How the work is cut: words a step, warps a program, and the most registers a thread may have.

    A program digests whole pages.
    """

    block: int
    warps: int
    registers: int | None = None


#: Small pages, or many: a warp a page, as many of them at once as the registers allow.
SMALL, MANY = Tuning(1024, 1, 96), Tuning(512, 1, 96)
#: Few large pages: more of each page under way at once.
FEW = Tuning(1024, 4, 64)


def tunings_for(page_bytes: int) -> tuple[Tuning, Tuning]:
    """The tunings for few and for many cells, chosen by measurement on an H200."""
    return (SMALL, SMALL) if page_bytes <= 12288 else (FEW, MANY)


def tuning_for(page_bytes: int, cells: int) -> Tuning:
    """The tuning for a call of so many cells."""
    few, many = tunings_for(page_bytes)
    return few if cells <= FEW_CELLS else many


@dataclass(frozen=True)
class Geometry:
    """A layout as the kernel is specialised for it.

    ``full`` is the single span (offset, bytes) of a full page, or None where it has several; ``align`` is
    what every span's address is a multiple of; ``segments`` is the most spans that a page can have.
    """

    layout: PageLayout
    align: int
    full: tuple[int, int] | None
    segments: int

    @classmethod
    def of(cls, layout: PageLayout, addresses: Iterable[int]) -> Geometry:
        """The geometry of a pool whose buffers start at ``addresses``."""
        spans = spans_of(layout)
        full = spans[0][:2] if len(spans) == 1 else None
        return cls(layout, alignment(layout, addresses), full, len(layout.segments))

    @property
    def header_words(self) -> int:
        """Words before the addresses."""
        return HEADER_FIXED + 2 * SPAN_WORDS * self.segments

    def header(self, pages: int, last_rows: int | None) -> list[int]:
        """The header for ``pages`` pages of which the last has ``last_rows`` valid rows (None: all)."""
        partial = last_rows is not None and last_rows != self.layout.rows
        words = [pages, int(partial)]
        for rows in (last_rows, None):
            spans = spans_of(self.layout, rows)
            spans += ((0, 0, 0),) * (self.segments - len(spans))
            words += [number for span in spans for number in span]
        return words


class Block:
    """Where things lie in the block of a call, as indices of 64-bit words.

    ``rows``: with room for row sums.
    """

    __slots__ = (
        "addresses", "digests", "layers", "ordinals", "outside", "page_ids", "pages", "result", "row_copies",
        "row_sums", "sums", "words",
    )  # fmt: skip

    def __init__(self, header_words: int, layers: int, pages: int, *, rows: bool) -> None:
        self.layers, self.pages = layers, pages
        self.row_copies = COPIES if rows else 0
        #: Addresses of the layers' buffers, then their ids.
        self.addresses = header_words
        self.page_ids = self.addresses + 2 * layers
        self.ordinals = self.page_ids + pages
        #: The first word that comes down.
        self.result = self.ordinals + pages
        #: Number of cells whose page the pool does not have, or whose ordinal lies outside the transfer.
        self.outside = self.result + 2 * TIME_SLOTS
        self.sums = self.outside + 1
        self.row_sums = self.sums + COPIES * CELL_SUMS
        #: Page digests: the only words of the result that are not sent up.
        self.digests = self.row_sums + self.row_copies * 3 * layers
        self.words = self.digests + layers * pages


def initial_result(layers: int, row_copies: int) -> Sequence[int]:
    """The result as it is sent up: no times, all sums zero."""
    return [NO_TIME] * (2 * TIME_SLOTS) + [0] * (1 + COPIES * CELL_SUMS + row_copies * 3 * layers)
