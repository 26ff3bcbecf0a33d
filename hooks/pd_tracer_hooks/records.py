"""Numbers a worker's records and queues them. A room that loses one is given up whole."""

from __future__ import annotations

import itertools
import time
from collections.abc import Sequence

from pd_tracer_hooks.drops import Drop, Drops
from pd_tracer_hooks.marks import Marks
from pd_tracer_hooks.outbox import Outbox, Queued
from pd_tracer_hooks.wire import Detail, Event, EventKind, Manifest, Observation, RecordKind, decoder, encode

_observations = decoder(Observation)


class Records:
    """The records of one worker in one boot. Thread-safe; nothing here waits."""

    def __init__(self, outbox: Outbox, drops: Drops) -> None:
        self._outbox, self._drops = outbox, drops
        self._marks = Marks()
        self._seq = itertools.count(1)

    def next_seq(self) -> int:
        """The number of a record that is about to be made. Each is given once."""
        return next(self._seq)

    def event(self, record: Event) -> None:
        """Queue an event, unless its room was given up."""
        if record.kind is EventKind.opened:
            self._marks.clear(record.room)
        elif self.given_up(record.room, record.keys):
            return
        self._put(RecordKind.events, record)

    def observation(self, record: Observation) -> None:
        """Queue an observation, unless its room was given up since it was asked for."""
        if not self.given_up(record.room, record.keys):
            self._put(RecordKind.observations, record)

    def manifest(self, record: Manifest) -> None:
        """Queue a manifest. It has a place in the reserve, since much is judged by it."""
        self._put_reserved(Queued(RecordKind.manifests, encode(record)))

    def detail(self, record: Detail) -> bool:
        """Queue page digests that were asked for, or say no: losing them costs no room, only the answer."""
        return self._outbox.put(Queued(RecordKind.details, encode(record)))

    def given_up(self, room: str, keys: Sequence[str]) -> bool:
        """Whether a room was given up: then the caller's record is counted as lost for the same reason."""
        reason = self._marks.reason(room)
        if reason is None:
            return False
        self.give_up(room, keys, reason)
        return True

    def give_up(self, room: str, keys: Sequence[str], reason: Drop) -> None:
        """A record of ``room`` is lost, so the room is: say so once for each transfer, and send no more."""
        self._drops.add(reason)
        if not self._marks.add(room, keys, reason):
            return
        event = Event(
            kind=EventKind.dropped,
            room=room,
            keys=list(keys),
            seq=self.next_seq(),
            at=time.time(),
            reason=reason.value,
        )
        self._put_reserved(Queued(RecordKind.events, encode(event)))

    def lost(self, item: Queued, reason: Drop) -> None:
        """A queued record will not arrive. An observation's room is given up; the rest is only counted."""
        if item.kind is RecordKind.observations:
            record = _observations.decode(item.body)
            self.give_up(record.room, record.keys, reason)
        else:
            self._drops.add(reason)

    def _put(self, kind: RecordKind, record: Observation | Event) -> None:
        if not self._outbox.put(Queued(kind, encode(record))):
            self.give_up(record.room, record.keys, Drop.queue_full)

    def _put_reserved(self, item: Queued) -> None:
        if not self._outbox.put_reserved(item):
            self._drops.add(Drop.queue_full)
