"""What becomes of a room that lost a record: told once, not sent by halves, every loss counted."""

from __future__ import annotations

import pytest

from pd_tracer_hooks import outbox as outbox_module
from pd_tracer_hooks.drops import Drop, Drops
from pd_tracer_hooks.outbox import Outbox, Queued
from pd_tracer_hooks.records import Records
from pd_tracer_hooks.u64s import U64s
from pd_tracer_hooks.wire import (
    ComponentDigest,
    Coverage,
    Event,
    EventKind,
    Observation,
    RecordKind,
    Stage,
    decoder,
    encode,
)

KEY = "0" * 16
OTHER_KEY = "1" * 16
KINDS = {RecordKind.events: decoder(Event), RecordKind.observations: decoder(Observation)}


class Worker:
    def __init__(self, places: int = 100) -> None:
        self.drops = Drops()
        self.outbox = Outbox(places, 1 << 20, wake_at=1000)
        self.records = Records(self.outbox, self.drops)

    def event(self, kind: EventKind, room: str, *keys: str) -> None:
        self.records.event(Event(kind=kind, room=room, keys=list(keys), seq=self.records.next_seq(), at=1.0))

    def observation(self, room: str, *keys: str) -> Observation:
        component = ComponentDigest(
            name="kv",
            signature=KEY,
            pages=0,
            k=1,
            coverage=Coverage.ends,
            layers=[0],
            runs=[],
            sums=U64s.of([0, 0, 0]),
            cells=[0, 0, 0],
        )
        return Observation(
            room=room,
            keys=list(keys),
            stage=Stage.send,
            seq=self.records.next_seq(),
            at=1.0,
            components=[component],
        )

    def sent(self) -> list[tuple[str, str, str]]:
        """(room, what, reason) of all that is queued."""
        found = []
        for item in self.outbox.take(10_000, 1 << 30):
            record = KINDS[item.kind].decode(item.body)
            what = record.kind.value if item.kind is RecordKind.events else record.stage.value
            found.append((record.room, what, getattr(record, "reason", "")))
        return found


def test_later_records_of_a_room_are_kept_back_and_counted_by_its_reason() -> None:
    worker = Worker()
    worker.records.give_up("r", [KEY], Drop.digest_late)
    worker.event(EventKind.freed, "r", KEY)
    worker.records.observation(worker.observation("r", KEY))
    worker.event(EventKind.freed, "neighbour")
    assert worker.sent() == [("r", "dropped", "digest_late"), ("neighbour", "freed", "")]
    assert worker.drops.counts() == {"digest_late": 3}


def test_each_transfer_of_a_room_is_told_so_that_none_looks_missing() -> None:
    worker = Worker()
    worker.records.give_up("r", [KEY], Drop.queue_full)
    assert worker.records.given_up("r", [KEY])
    assert worker.records.given_up("r", [OTHER_KEY])
    assert [what for _, what, _ in worker.sent()] == ["dropped", "dropped"]


def test_a_room_that_is_opened_again_is_sent_again() -> None:
    worker = Worker()
    worker.records.give_up("r", [KEY], Drop.queue_full)
    worker.event(EventKind.opened, "r", KEY)
    worker.records.observation(worker.observation("r", KEY))
    assert [what for _, what, _ in worker.sent()] == ["dropped", "opened", "send"]


def test_without_a_place_the_newcomer_s_room_is_given_up() -> None:
    worker = Worker(places=1)
    worker.records.observation(worker.observation("first", KEY))
    worker.records.observation(worker.observation("second", KEY))
    assert worker.sent() == [("second", "dropped", "queue_full"), ("first", "send", "")]
    assert worker.drops.counts() == {"queue_full": 1}


def test_a_reserve_that_is_used_up_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outbox_module, "RESERVED", 1)
    worker = Worker(places=0)
    for room in ("a", "b"):
        worker.event(EventKind.opened, room)
    assert [room for room, _, _ in worker.sent()] == ["a"]
    assert worker.drops.counts() == {"queue_full": 3}, "two records, and one word of a room"


def test_a_lost_observation_costs_its_room_and_a_lost_event_nothing_more() -> None:
    worker = Worker()
    event = Event(kind=EventKind.dropped, room="e", seq=1, at=1.0)
    worker.records.lost(Queued(RecordKind.events, encode(event)), Drop.refused)
    worker.records.lost(Queued(RecordKind.observations, encode(worker.observation("o", KEY))), Drop.too_large)
    assert worker.sent() == [("o", "dropped", "too_large")]
    assert worker.drops.counts() == {"refused": 1, "too_large": 1}
