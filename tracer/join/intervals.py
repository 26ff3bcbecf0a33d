"""Sets of page ordinals as spans: nothing here costs more for more pages, only for more pieces.

A span is a half-open interval ``(start, end)``. ``Spans`` are sorted, disjoint, not touching and not
empty, so that two equal sets of pages are two equal lists.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from pd_tracer_hooks.wire import Coverage

Span = tuple[int, int]
Spans = list[Span]


def merged(spans: Iterable[Span]) -> Spans:
    """The union of ``spans``, which may be in any order, overlap or be empty."""
    out: Spans = []
    start = end = -1
    for low, high in sorted(spans):
        if low >= high:
            continue
        if low <= end and end >= 0:
            end = max(end, high)
            continue
        if end >= 0:
            out.append((start, end))
        start, end = low, high
    if end >= 0:
        out.append((start, end))
    return out


def from_runs(runs: Sequence[tuple[int, int]]) -> Spans:
    """The pages of runs ``(first, count)``."""
    if len(runs) == 1:  # nearly always
        ((first, count),) = runs
        return [(first, first + count)] if count else []
    return merged((first, first + count) for first, count in runs)


def to_runs(spans: Spans) -> list[tuple[int, int]]:
    """The spans as runs ``(first, count)``."""
    return [(start, end - start) for start, end in spans]


def covers(have: Spans, need: Spans) -> bool:
    """Whether every page of ``need`` is in ``have``."""
    pieces = iter(have)
    low, high = next(pieces, (0, 0))
    for start, end in need:
        while high < end:
            piece = next(pieces, None)
            if piece is None:
                return False
            low, high = piece
        if low > start:
            return False
    return True


def shared(left: Spans, right: Spans) -> Spans:
    """The pages in both."""
    out: Spans = []
    i = j = 0
    while i < len(left) and j < len(right):
        low = max(left[i][0], right[j][0])
        high = min(left[i][1], right[j][1])
        if low < high:
            out.append((low, high))
        if left[i][1] < right[j][1]:
            i += 1
        else:
            j += 1
    return out


def without(left: Spans, right: Spans) -> Spans:
    """The pages of ``left`` that are not in ``right``."""
    out: Spans = []
    for start, end in left:
        low = start
        for cut_low, cut_high in right:
            if cut_high <= low:
                continue
            if cut_low >= end:
                break
            if cut_low > low:
                out.append((low, cut_low))
            low = cut_high
        if low < end:
            out.append((low, end))
    return out


def size(spans: Spans) -> int:
    """How many pages there are."""
    return sum(end - start for start, end in spans)


def region(name: str, pages: int, k: int) -> Spans:
    """The pages of ``head``, ``tail`` or ``body`` in a transfer of ``pages`` pages."""
    if name == "head":
        span = (0, min(k, pages))
    elif name == "tail":
        span = (max(0, pages - k), pages)
    else:
        span = (0, pages)
    return [span] if span[0] < span[1] else []


def needed(pages: int, k: int, coverage: Coverage) -> Spans:
    """The pages that a side must have read to be complete at ``coverage``."""
    if coverage is Coverage.full:
        return region("body", pages, k)
    return merged(region("head", pages, k) + region("tail", pages, k))


def first_repeat(pieces: Sequence[Spans]) -> Spans:
    """Pages that the first two pieces which overlap have in common; empty if none do."""
    if len(pieces) < 2:
        return []
    flat = sorted((span, index) for index, spans in enumerate(pieces) for span in spans)
    reach, owner = -1, -1
    for (start, end), index in flat:
        if start < reach and index != owner:
            return shared(pieces[owner], pieces[index])
        if end > reach:
            reach, owner = end, index
    return []
