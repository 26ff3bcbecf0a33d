"""Answers what the collector asks for: page digests out of the journal, and a closer look for a while."""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence

from pd_tracer_hooks.journal import Entry, Journal
from pd_tracer_hooks.u64s import U64s
from pd_tracer_hooks.wire import Detail, Side, Stage, Want

#: A want that was answered is not answered again for this long: the collector repeats it in every answer
#: until ours has reached it.
REPEAT_S = 60.0
#: Answered wants that are remembered.
_REMEMBERED = 4096
#: Bytes of digests in one detail; more are split by layers.
DETAIL_BYTES = 1 << 20

_Name = tuple[str, str, tuple[str, ...], str, tuple[str, ...]]

#: Where a side looks first: what a detail that is gone is said of when the want names no stage.
_FIRST_LOOK = {Side.prefill: Stage.send, Side.decode: Stage.receive}


class Wanted:
    """Takes what an answer says is wanted. Called by the sender's thread; never waits."""

    def __init__(
        self,
        journal: Journal,
        side: Side,
        *,
        deliver: Callable[[Detail], bool],
        next_seq: Callable[[], int],
        deep_limit_s: float,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """``deliver`` queues a detail, or says no. ``deep_limit_s``: longest closer look; 0: none."""
        self._journal, self._side = journal, side
        self._deliver, self._next_seq = deliver, next_seq
        self._deep_limit_s, self._clock = deep_limit_s, clock
        self._lock = threading.Lock()
        self._answered: OrderedDict[_Name, float] = OrderedDict()
        self._deep_until = float("-inf")

    @property
    def deep(self) -> bool:
        """Whether all stages and full coverage are wanted now."""
        return self._clock() < self._deep_until

    def take(self, wanted: Sequence[Want]) -> None:
        """Answer what is new among ``wanted``. Kinds that are not known are left alone."""
        for want in wanted:
            if want.kind == "detail":
                if self._is_new(want):
                    self._answer(want)
            elif want.kind == "deep":
                self._deep_until = self._clock() + min(want.for_s, self._deep_limit_s)

    def _is_new(self, want: Want) -> bool:
        now = self._clock()
        key = _named(want)
        with self._lock:
            if self._answered.get(key, float("-inf")) > now - REPEAT_S:
                return False
            self._answered[key] = now
            self._answered.move_to_end(key)
            while len(self._answered) > _REMEMBERED:
                self._answered.popitem(last=False)
        return True

    def _answer(self, want: Want) -> None:
        entries = self._journal.find(want.room, keys=want.keys, component=want.component, stages=want.stages)
        details = [detail for entry in entries for detail in self._details(entry)]
        for detail in details or [self._gone(want)]:
            if not self._deliver(detail):
                # No place now: when the collector asks again there may be.
                with self._lock:
                    self._answered.pop(_named(want), None)
                return

    def _details(self, entry: Entry) -> Iterator[Detail]:
        pages = sum(count for _, count in entry.runs)
        row = 8 * pages
        layers = max(1, DETAIL_BYTES // row) if row else len(entry.layers)
        for first in range(0, len(entry.layers), layers):
            part = entry.layers[first : first + layers]
            place = slice(first * row, (first + len(part)) * row)
            yield Detail(
                room=entry.room,
                keys=list(entry.keys),
                stage=entry.stage,
                look=entry.look,
                seq=self._next_seq(),
                at=time.time(),
                component=entry.component,
                layers=list(part),
                runs=list(entry.runs),
                digests=U64s(entry.digests[place]),
                order_free=U64s(entry.order_free[place]),
            )

    def _gone(self, want: Want) -> Detail:
        known = {stage.value: stage for stage in Stage}
        stage = next((known[name] for name in want.stages if name in known), _FIRST_LOOK[self._side])
        return Detail(
            room=want.room,
            keys=want.keys,
            stage=stage,
            seq=self._next_seq(),
            at=time.time(),
            component=want.component or "*",
            gone=True,
            reason="no longer in the journal, or never in this worker",
        )


def _named(want: Want) -> _Name:
    """What one want is recognised by: what does not change from one answer to the next."""
    return (want.kind, want.room, tuple(sorted(want.keys)), want.component, tuple(sorted(want.stages)))
