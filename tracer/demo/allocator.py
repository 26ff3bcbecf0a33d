"""A worker's free pages: first freed, first given out again, as engines do it."""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Sequence


class PageAllocator:
    """Pages 1 to ``pages - 1`` of a pool. Page 0 stays out: engines let padded rows write there."""

    def __init__(self, pages: int, seed: int) -> None:
        ids = list(range(1, pages))
        # Two workers never agree on physical pages, nor are a room's pages neighbours.
        random.Random(seed).shuffle(ids)  # noqa: S311 - repeatable, nothing secret
        self._free = deque(ids)
        self._taken: set[int] = set()

    @property
    def free(self) -> int:
        """Number of pages that can be had."""
        return len(self._free)

    def take(self, count: int) -> tuple[int, ...] | None:
        """Take ``count`` pages, or None if there are not as many; then none is taken."""
        if count > len(self._free):
            return None
        pages = tuple(self._free.popleft() for _ in range(count))
        self._taken.update(pages)
        return pages

    def take_these(self, pages: Sequence[int]) -> tuple[int, ...]:
        """Take just ``pages``. Raises ``ValueError`` for one that is not free."""
        free = set(self._free)
        for page in pages:
            if page not in free:
                raise ValueError(f"page {page} is asked for but is not free")
        self._free = deque(page for page in self._free if page not in set(pages))
        self._taken.update(pages)
        return tuple(pages)

    def give_back(self, pages: Sequence[int]) -> None:
        """Free ``pages``. Raises ``ValueError`` for one that is free already."""
        for page in pages:
            if page not in self._taken:
                raise ValueError(f"page {page} is given back but was not taken")
            self._taken.remove(page)
            self._free.append(page)
