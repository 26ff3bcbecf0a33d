from __future__ import annotations

from pd_tracer_hooks.outbox import RESERVED, Outbox, Queued, split_halves
from pd_tracer_hooks.wire import RecordKind


def item(body: bytes = b"x") -> Queued:
    return Queued(RecordKind.observations, body)


def test_bounded_by_records() -> None:
    outbox = Outbox(2, 100, wake_at=10)
    assert [outbox.put(item()) for _ in range(3)] == [True, True, False]
    assert len(outbox) == 2


def test_bounded_by_bytes() -> None:
    outbox = Outbox(100, 10, wake_at=10)
    assert [outbox.put(item(bytes(4))) for _ in range(3)] == [True, True, False]
    assert outbox.put(item(bytes(2)))


def test_taken_in_order_and_by_count_and_size() -> None:
    outbox = Outbox(100, 1000, wake_at=10)
    for number in range(6):
        outbox.put(item(bytes([number]) * 4))
    assert [i.body[0] for i in outbox.take(2, 1000)] == [0, 1]
    assert [i.body[0] for i in outbox.take(9, 9)] == [2, 3]
    assert [i.body[0] for i in outbox.take(9, 1)] == [4], "a record larger than the batch goes alone"
    assert [i.body[0] for i in outbox.take(9, 1000)] == [5]
    assert outbox.take(9, 1000) == []
    assert outbox.put(item(bytes(1000)))


def test_the_sender_is_woken_once_a_batch_waits() -> None:
    outbox = Outbox(100, 1000, wake_at=3)
    outbox.put(item())
    outbox.put(item())
    assert not outbox.wake.is_set()
    outbox.put(item())
    assert outbox.wake.is_set()


def test_the_reserve_is_for_full_queues_and_is_bounded_too() -> None:
    outbox = Outbox(1, 1000, wake_at=10)
    assert outbox.put(item())
    assert [outbox.put_reserved(item()) for _ in range(RESERVED + 1)] == [True] * RESERVED + [False]
    outbox.take(RESERVED + 2, 10_000)
    assert outbox.put_reserved(item())


def test_the_reserve_takes_no_place_from_the_queue_and_goes_first() -> None:
    outbox = Outbox(2, 8, wake_at=10)
    assert outbox.put_reserved(item(b"reserved"))
    assert outbox.put(item(b"abcd"))
    assert outbox.put(item(b"efgh"))
    assert [i.body for i in outbox.take(10, 1000)] == [b"reserved", b"abcd", b"efgh"]
    assert outbox.put(item(bytes(8)))
    assert not outbox.put(item(b"x")), "what left the reserve made no room here"


def test_a_reserve_that_was_used_up_is_free_again_although_the_queue_never_empties() -> None:
    outbox = Outbox(10, 1000, wake_at=10)
    while outbox.put_reserved(item()):
        pass
    assert outbox.put(item())
    outbox.take(5, 1000)
    assert [outbox.put_reserved(item()) for _ in range(6)] == [True] * 5 + [False]


def test_discard_empties_all_of_it() -> None:
    outbox = Outbox(2, 8, wake_at=10)
    outbox.put(item(bytes(8)))
    outbox.put_reserved(item())
    assert (outbox.discard(), len(outbox), outbox.take(5, 100)) == (2, 0, [])
    assert outbox.put(item(bytes(8)))


def test_split_halves_loses_nothing() -> None:
    items = [item(bytes([n])) for n in range(5)]
    first, second = split_halves(items)
    assert first + second == items
    assert first
    assert second
