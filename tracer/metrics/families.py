"""Counter families whose labels come from workers: bounded in number and length."""

from __future__ import annotations

import time
from collections.abc import Callable

from prometheus_client import CollectorRegistry, Counter

#: Series a family may have; what comes after that is counted under OTHER.
MAX_SERIES = 2000
MAX_LABEL = 128
OTHER = "other"

Labels = tuple[str, ...]


def label(value: str) -> str:
    """A label value of bounded length."""
    return value if len(value) <= MAX_LABEL else value[: MAX_LABEL - 1] + "…"


class Family:
    """A counter with labels. The first ``identity`` labels are text from workers, the rest are ours.

    Once there are ``max_series``, a new identity is counted with ``other`` in its place, so that one
    worker with a new name for every start cannot fill Prometheus.
    """

    def __init__(
        self,
        name: str,
        documentation: str,
        labels: Labels,
        *,
        registry: CollectorRegistry,
        identity: int,
        max_series: int = MAX_SERIES,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._counter = Counter(name, documentation, labels, registry=registry)
        self._identity = identity
        self._max = max_series
        self._clock = clock
        self._children: dict[Labels, Counter] = {}
        self._touched: dict[Labels, float] = {}

    def add(self, labels: Labels, amount: float = 1.0) -> None:
        """Raise the series of ``labels``; by 0 makes it exist."""
        child = self._children.get(labels)
        if child is None:
            child = self._child(labels)
        if amount:
            child.inc(amount)
        if labels in self._children:
            self._touched[labels] = self._clock()

    def _child(self, labels: Labels) -> Counter:
        shown = tuple(map(label, labels))
        if len(self._children) >= self._max:
            shown = (OTHER,) * self._identity + shown[self._identity :]
            # Not remembered under the labels that came: those have no bound.
            return self._counter.labels(*shown)
        child = self._counter.labels(*shown)
        self._children[labels] = child
        return child

    def expire(self, before: float) -> None:
        """Drop the series that were last raised before a time. For a thread of its own beside :meth:`add`."""
        # A copy, made in one step: a dict that grows meanwhile must not be walked.
        for labels in [labels for labels, at in self._touched.copy().items() if at < before]:
            del self._touched[labels]
            if self._children.pop(labels, None) is not None:
                self._counter.remove(*map(label, labels))
