"""What is logged about the collector: each complaint once, its absence every so often."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable

_log = logging.getLogger("pd_tracer")

#: Complaints that are told apart; others beyond these go unlogged.
COMPLAINTS = 100
#: Seconds between two notices that the collector is away.
AWAY_EVERY_S = 60.0


class Notices:
    """Used by the sender's thread alone."""

    def __init__(self, url: str, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._url, self._clock = url, clock
        self._told: set[str] = set()
        self._away_since: float | None = None
        self._away_told_at: float | None = None
        #: Whether the absence that goes on, or has just ended, was logged.
        self._told_away = False

    def once(self, what: str) -> None:
        """Log a complaint, unless it was before: a collector may say no for every record."""
        if what not in self._told and len(self._told) < COMPLAINTS:
            self._told.add(what)
            _log.warning("pd-tracer's collector: %s", what)

    def away(self, why: str) -> None:
        """A post failed."""
        now = self._clock()
        if self._away_since is None:
            self._away_since, self._told_away = now, False
        if self._away_told_at is None or now - self._away_told_at >= AWAY_EVERY_S:
            self._away_told_at, self._told_away = now, True
            _log.warning("pd-tracer's collector at %s is away (%s); records wait", self._url, why)

    def back(self) -> None:
        """A post was answered."""
        if self._away_since is None:
            return
        if self._told_away:
            _log.warning("pd-tracer's collector is back after %.1f s", self._clock() - self._away_since)
        self._away_since = None
