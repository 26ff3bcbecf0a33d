"""Lists of page numbers as runs of consecutive ones: ``(first, count)``, as they travel on the wire."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import chain

#: (first, count): ``count`` consecutive pages from ``first`` on.
Run = tuple[int, int]


def runs_of(pages: Iterable[int]) -> list[Run]:
    """Gather ``pages`` into runs, keeping their order: :func:`expand` gives the very same list back.

    A page that does not follow its predecessor by one starts a new run, so sort first where the order
    means nothing.
    """
    runs: list[Run] = []
    first = after = 0
    for page in pages:
        if page == after and after != first:
            after += 1
            continue
        if after != first:
            runs.append((first, after - first))
        first, after = page, page + 1
    if after != first:
        runs.append((first, after - first))
    return runs


def expand(runs: Iterable[Run]) -> list[int]:
    """The pages of ``runs``, run after run."""
    return list(chain.from_iterable(range(first, first + length) for first, length in runs))


def count(runs: Iterable[Run]) -> int:
    """Number of pages in ``runs``; one that stands in two of them counts twice (see :func:`union`)."""
    return sum(length for _, length in runs)


def union(*many: Sequence[Run]) -> list[Run]:
    """All pages of several lists of runs, as ascending runs that neither overlap nor touch."""
    merged: list[Run] = []
    for first, length in sorted(run for runs in many for run in runs if run[1] > 0):
        if merged and first <= sum(merged[-1]):
            start, had = merged[-1]
            merged[-1] = (start, max(had, first + length - start))
        else:
            merged.append((first, length))
    return merged
