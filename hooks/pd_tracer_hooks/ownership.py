"""Whether pages still belonged to their room when a digest had read them.

Nothing is held back for a digest: its pages may be freed, granted again and rewritten while it waits or
reads. So the integration says :meth:`PageOwners.freed` *before* the engine's allocator may give pages to
somebody else, and a digest takes a :class:`Claim` before it is launched. If no page of the claim has been
freed by the time the digest is seen to be done, everything it read was the room's.

Pages are counted in generations: the clock ticks with each call of ``freed``, and a page is as old as the
tick at which it was freed last. An engine's thread pays for an append; comparing is left to whoever asks.
What this does not know: who owns a page now, or whether it was written without having been freed.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

from pd_tracer_hooks.wire import Owned

#: Frees are gathered once so many wait, even if nobody asks.
_GATHER_FROM = 1024


class PageOwners:
    """Generations of the pages of one page table. Thread-safe.

    ``tracked``: whether all of the engine's frees are hooked. While they are not, claims are ``unknown``.
    """

    def __init__(self, *, tracked: bool = True) -> None:
        self.tracked = tracked
        self._clock = threading.Lock()
        self._tick = 0
        self._waiting: deque[tuple[int, Sequence[int]]] = deque()
        self._gathering = threading.Lock()
        #: The tick at which each page was freed last; pages never freed are absent.
        self._freed_at: dict[int, int] = {}

    def freed(self, pages: Sequence[int]) -> None:
        """These physical pages are about to be free. Call it before the allocator is told.

        ``pages`` must lie in host memory; it is copied.
        """
        kept = pages.copy() if hasattr(pages, "copy") else tuple(pages)
        with self._clock:
            self._tick += 1
            self._waiting.append((self._tick, kept))
        if len(self._waiting) > _GATHER_FROM:
            self._gather()

    def claim(self, pages: Sequence[int]) -> Claim:
        """Remember that ``pages`` belong to a room now. Call it before the digest's launch.

        ``pages`` must lie in host memory and must not be changed afterwards.
        """
        with self._clock:
            return Claim(self, pages, self._tick)

    def freed_since(self, pages: Sequence[int], tick: int) -> bool:
        """Whether one of ``pages`` was freed after ``tick``."""
        self._gather()
        freed_at = self._freed_at
        numbers = pages.tolist() if hasattr(pages, "tolist") else pages
        return any(freed_at.get(page, 0) > tick for page in numbers)

    def _gather(self) -> None:
        with self._gathering:
            while self._waiting:
                tick, pages = self._waiting.popleft()
                numbers = pages.tolist() if hasattr(pages, "tolist") else pages
                self._freed_at.update(dict.fromkeys(numbers, tick))


@dataclass(frozen=True)
class Claim:
    """Pages that belonged to a room at a tick of :class:`PageOwners`."""

    owners: PageOwners
    pages: Sequence[int]
    tick: int

    def owned(self) -> Owned:
        """Whether the room has had its pages without a break since the claim.

        Ask once the digest is seen to be done: ``yes`` then holds for all that it read. ``no`` may also
        mean that the pages were freed a moment after the digest was done.
        """
        if self.owners.freed_since(self.pages, self.tick):
            return Owned.no
        return Owned.yes if self.owners.tracked else Owned.unknown
