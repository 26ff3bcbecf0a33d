"""What the writer is handed, and what it answers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from pd_tracer_hooks.wire import Detail, Event, Heartbeat, Manifest, Observation, Report, Worker
from tracer.join.model import AnyEntry, Entry, WorkerRef
from tracer.store.codec import NaturalKey, Record, RoomRef, encode_record, natural_key


class Incoming(NamedTuple):
    """One record on its way in."""

    ref: RoomRef
    key: NaturalKey
    entry: AnyEntry
    body: bytes


@dataclass(frozen=True, slots=True)
class Batch:
    """What one report brought, as far as it was taken."""

    worker: Worker
    #: Seconds since the epoch by the collector's clock.
    received: float
    #: In the order in which the worker made them.
    records: list[Incoming]
    manifests: Sequence[Manifest] = ()
    heartbeat: Heartbeat | None = None
    drops: dict[str, int] = field(default_factory=dict)
    #: Bytes of the report's body, for the queue's limit.
    size: int = 0

    @property
    def weight(self) -> int:
        """How many records the batch adds to a transaction; an empty one counts too."""
        return len(self.records) + len(self.manifests) + 1


@dataclass(frozen=True, slots=True)
class Recheck:
    """Rooms to judge again although nothing came for them: time passed, or a manifest arrived."""

    refs: Sequence[RoomRef]
    size: int = 0

    @property
    def weight(self) -> int:
        """How many rooms the job adds to a transaction."""
        return len(self.refs)


@dataclass(slots=True)
class Outcome:
    """What became of a batch's records. Exists only after the commit."""

    accepted: int = 0
    duplicate: int = 0
    conflicting: int = 0


def make_batch(
    report: Report,
    observations: Sequence[Observation],
    events: Sequence[Event],
    manifests: Sequence[Manifest],
    details: Sequence[Detail] = (),
    *,
    received: float,
    size: int,
) -> Batch:
    """Prepare the records of ``report`` that were found good."""
    worker = report.worker
    deployment = worker.deployment
    who = WorkerRef(worker.id, worker.boot, worker.side, worker.server)
    made: list[Record] = [*observations, *events, *details]
    if bool(observations) + bool(events) + bool(details) > 1:
        made.sort(key=_seq)
    records = [
        Incoming(
            (deployment, record.room),
            natural_key(worker, record),
            Entry(who, received, record),
            encode_record(record),
        )
        for record in made
    ]
    return Batch(worker, received, records, manifests, report.heartbeat, report.drops, size)


def _seq(record: Record) -> int:
    return record.seq
