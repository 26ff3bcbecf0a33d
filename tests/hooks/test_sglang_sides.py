"""What each side's handlers look at and report, call by call."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from support.sglang_fakes import Manager, request, session

from pd_tracer_hooks.keys import transfer_key
from pd_tracer_hooks.sglang.binding import Call
from pd_tracer_hooks.wire import EventKind, Owned, Side, Want

DECODE = "10.0.0.2:7100"


class Event:
    def __init__(self) -> None:
        self.done = False

    def query(self) -> bool:
        return self.done


def sending(manager: Manager, room: int, pages: list[int], first: int, last: bool, **more: Any) -> Call:
    place = slice(first, first + len(pages))
    return Call(
        {
            "self": manager,
            "bootstrap_room": room,
            "kv_indices": pages,
            "index_slice": place,
            "is_last_chunk": last,
            **more,
        }
    )


def sender(manager: Manager, room: int, pages: int) -> Call:
    return Call({"self": SimpleNamespace(bootstrap_room=room, kv_mgr=manager), "num_kv_indices": pages})


def test_chunks_keep_their_edges_and_the_key_of_what_decode_asked_for() -> None:
    made, agent = session(Side.prefill)
    manager = Manager()
    manager.wanted(7, DECODE, pages=[20, 21, 22], prefix=32)
    made.prefill.sender_ready(sender(manager, 7, 3))
    made.prefill.send(sending(manager, 7, [4, 5], 0, False, num_kv_tokens=32))
    made.prefill.send(sending(manager, 7, [9], 2, True, num_kv_tokens=3, aux_index=1))
    key = transfer_key(session=DECODE, pages=[20, 21, 22], prefix_pages=2, aux_index=1)
    assert agent.events == [(EventKind.started, "7", "")]
    assert [look.keys for look in agent.looks] == [[key], [key]]
    parts = [
        (look.components[0].pages, look.components[0].first, look.components[0].last) for look in agent.looks
    ]
    assert parts == [((4, 5), 0, False), ((9,), 2, True)]
    assert [look.components[0].last_rows for look in agent.looks] == [None, 3]
    assert {c.total_pages for look in agent.looks for c in look.components} == {3}
    assert agent.looks[1].components[0].start == 2
    assert agent.looks[1].tokens == 35


@pytest.mark.parametrize("why", ["dummy rank", "failed", "not asked for", "health check", "fake host"])
def test_what_is_not_sent_is_not_reported(why: str) -> None:
    made, agent = session(Side.prefill)
    manager = Manager()
    room = 0 if why == "health check" else 7
    if why != "not asked for":
        manager.wanted(room, DECODE, pages=[1])
    if why == "failed":
        manager.request_status[room] = 0
    if why == "dummy rank":
        manager.transfer_infos.clear()
    host = "2.2.2.2" if why == "fake host" else "10.0.0.9"
    call = Call({"req": request(room, 4, rid="HEALTH_CHECK_1" if why == "health check" else "r", host=host)})
    made.prefill.sending(call, lambda: made.prefill.send(sending(manager, room, [4], 0, True)))
    assert agent.looks == []


@pytest.mark.parametrize(
    ("backend", "looks"), [("mooncake", [0]), ("mori", [0]), ("nixl", [0, 1]), ("forked", [0, 1])]
)
def test_a_cached_prefix_is_looked_at_when_the_backend_reads_it(backend: str, looks: list[int]) -> None:
    """Mooncake and Mori wait for the event. Where nobody waits, one look is at once and one comes after."""
    made, agent = session(Side.prefill, backend)
    manager, event = Manager(), Event()
    manager.wanted(7, DECODE, pages=[20, 21])
    made.prefill.sender_ready(sender(manager, 7, 2))
    made.prefill.send(sending(manager, 7, [4, 5], 0, False, num_kv_tokens=32, wait_event=event))
    assert [look.look for look in agent.looks] == looks[:-1]
    event.done = True
    [job] = made.later._due()
    job()
    assert [look.look for look in agent.looks] == looks
    made.close()


def test_indices_that_are_still_copied_are_not_read() -> None:
    made, agent = session(Side.prefill)
    manager, event, pages = Manager(), Event(), [0, 0]
    manager.wanted(7, DECODE, pages=[20, 21])
    made.prefill.sender_ready(sender(manager, 7, 2))
    made.prefill.send(sending(manager, 7, pages, 0, True, num_kv_tokens=32, indices_event=event))
    assert agent.looks == []
    pages[:] = [4, 5]
    event.done = True
    [job] = made.later._due()
    job()
    assert agent.looks[0].components[0].pages == (4, 5)
    made.close()


def test_scattered_pages_make_a_look_for_each_run() -> None:
    """A rank that sends a share of the pages says at which ordinals they belong."""
    made, agent = session(Side.prefill)
    manager = Manager()
    manager.wanted(7, DECODE, pages=list(range(6)))
    made.prefill.sender_ready(sender(manager, 7, 6))
    call = sending(manager, 7, [4, 5, 6], 0, True, num_kv_tokens=96)
    made.prefill.send(Call({**call, "index_slice": [1, 2, 5]}))
    assert [(look.components[0].first, look.components[0].pages) for look in agent.looks] == [
        (1, (4, 5)),
        (5, (6,)),
    ]


def test_release_looks_at_what_was_sent_unless_it_failed() -> None:
    made, agent = session(Side.prefill)
    manager = Manager()
    for room in (7, 8):
        manager.wanted(room, DECODE, pages=[20])
        made.prefill.sender_ready(sender(manager, room, 1))
        made.prefill.send(sending(manager, room, [room], 0, True, num_kv_tokens=16))
    manager.failure_records[8] = "no route"
    made.status(8, 0, manager)
    made.status(7, 4, manager)
    for room in (7, 8):
        made.prefill.released(Call({"req": request(room, 16)}))
    assert agent.stages() == [("send", 0), ("send", 0), ("release", 0)]
    assert (EventKind.failed, "8", "no route") in agent.events
    assert made.rooms.get(7) is None


def test_pages_freed_in_flight_are_no_longer_the_rooms() -> None:
    made, agent = session(Side.prefill)
    manager = Manager()
    manager.wanted(7, DECODE, pages=[20, 21])
    made.prefill.sender_ready(sender(manager, 7, 2))
    made.prefill.send(sending(manager, 7, [4], 0, False, num_kv_tokens=16))
    transfer = made.rooms.get(7)
    assert transfer is not None
    assert transfer.owned() is Owned.yes
    made.freed(([64, 65],), 16)
    assert transfer.owned() is Owned.no
    assert agent.looks[0].owned() is Owned.yes  # type: ignore[operator]  # its digest was done before


def opened(room: int, pages: list[int], **more: Any) -> Call:
    receiver = SimpleNamespace(bootstrap_room=room, bootstrap_addr="10.0.0.9:8998")
    return Call({"self": receiver, "kv_indices": pages, "aux_index": 1, **more})


def test_decode_opens_receives_rechecks_and_admits_once() -> None:
    made, agent = session(Side.decode)
    req = request(7, 35)
    made.decode.allocating(Call({"req": req}))
    made.decode.opened(opened(7, [20, 21, 22], decode_prefix_len=0))
    made.status(7, 4, Manager())
    made.decode.received(Call({"decode_req": SimpleNamespace(req=req)}))
    batch = SimpleNamespace(reqs=[req])
    for _ in range(2):  # a retracted request comes through again, with decode's own rows written
        made.decode.admitted(Call({"self": batch}))
    assert agent.events == [(EventKind.opened, "7", "")]
    assert agent.stages() == [("receive", 0), ("admit", 0)]
    look = agent.looks[0]
    assert look.signalled_at is not None
    assert look.peer == "10.0.0.9:8998"
    assert look.components[0].last_rows == 3
    assert len(made.later._timed) == 3
    for _, _, job in sorted(made.later._timed):
        job()
    assert agent.stages()[2:] == [("recheck", 0), ("recheck", 1), ("recheck", 2)]
    made.close()


def test_no_recheck_once_the_pages_are_given_back() -> None:
    made, agent = session(Side.decode)
    req = request(7, 35)
    made.decode.opened(opened(7, [20, 21, 22]))
    made.decode.received(Call({"decode_req": SimpleNamespace(req=req)}))
    made.decode.released(Call({"req": req}))
    for _, _, job in made.later._timed:
        job()
    assert agent.stages() == [("receive", 0)]
    assert agent.events[-1][0] is EventKind.freed
    made.close()


def test_nothing_to_transfer_and_aborts() -> None:
    made, agent = session(Side.decode)
    made.decode.opened(opened(7, [], decode_prefix_len=32))
    made.decode.opened(opened(8, [3]))
    made.decode.receiver_aborted(Call({"self": SimpleNamespace(bootstrap_room=8)}))
    made.status(8, 0, Manager())  # what abort does next is no second end
    assert [kind for kind, *_ in agent.events] == [
        EventKind.nothing_transferred,
        EventKind.opened,
        EventKind.aborted,
    ]


@pytest.mark.parametrize(
    ("expected", "kept", "words"),
    [(5, True, "match"), (5, False, "mismatch"), (0, True, "skipped")],
)
def test_the_engines_own_checksum(expected: int, kept: bool, words: str) -> None:
    made, agent = session(Side.decode)
    req = request(7, 35, expected_kv_checksum=expected)
    made.decode.opened(opened(7, [20, 21, 22]))
    batch = SimpleNamespace(reqs=[req])

    def original() -> None:
        batch.reqs = [req] if kept else []

    call = Call({"self": SimpleNamespace(kv_checksum_computer=object()), "batch": batch})
    made.decode.checksums(call, original)
    kind, room, reason = agent.events[-1]
    assert (kind, room) == (EventKind.checked, "7")
    assert words in reason


def test_a_checksum_that_is_off_reports_nothing() -> None:
    made, agent = session(Side.decode)
    call = Call({"self": SimpleNamespace(kv_checksum_computer=None), "batch": SimpleNamespace(reqs=[])})
    assert made.decode.checksums(call, lambda: "theirs") == "theirs"
    assert agent.events == []


def test_retraction_is_told_of_those_that_lost_their_place() -> None:
    made, agent = session(Side.decode)
    kept, lost = request(7, 4), request(8, 4)
    for room in (7, 8):
        made.decode.opened(opened(room, [room]))
    batch = SimpleNamespace(reqs=[kept, lost])

    def original() -> str:
        batch.reqs = [kept]
        return "theirs"

    assert made.decode.retracting(Call({"self": batch}), original) == "theirs"
    assert agent.events[-1][:2] == (EventKind.retracted, "8")


def test_index_keys_travel_with_the_last_chunk_over_the_suffix() -> None:
    made, agent = session(Side.prefill, kind="dsa")
    manager = Manager()
    manager.wanted(7, DECODE, pages=[20, 21, 22])
    made.prefill.sender_ready(sender(manager, 7, 3))
    made.prefill.send(sending(manager, 7, [4, 5], 0, False, num_kv_tokens=128))
    made.prefill.send(sending(manager, 7, [6], 2, True, num_kv_tokens=10, state_indices=[[4, 5, 6]]))
    names = [[c.pool.component for c in look.components] for look in agent.looks]
    assert names == [["kv"], ["kv", "index_k"]]
    index = agent.looks[1].components[1]
    assert (index.pages, index.total_pages, index.last_rows) == ((4, 5, 6), 3, 10)


def test_allocate_is_looked_at_while_the_collector_wants_everything() -> None:
    made, agent = session(Side.decode)
    made.decode.opened(opened(7, [20]))
    made.wanted([Want(kind="of another release"), Want(kind="deep", for_s=60.0)])
    made.decode.opened(opened(8, [21]))
    assert [(look.room, look.stage.value) for look in agent.looks] == [("8", "allocate")]
