import pytest

from pd_tracer_hooks.wire import Stage
from tracer.demo.names import NUMBERS, faults_named, names
from tracer.demo.plan import KINDS, Fault, PlannedRoom
from tracer.demo.timeline import LATE_AFTER, NAMES, timeline


def room(seed: int, fault: Fault | None = None) -> PlannedRoom:
    return PlannedRoom(index=0, room="1", tokens=1, fault=fault, seed=seed)


@pytest.mark.parametrize("seed", range(30))
def test_looks_come_in_their_order(seed: int) -> None:
    times = timeline(room(seed), "all")
    due = [look.after_s for look in times.looks]
    assert times.looks[0].stage is Stage.receive
    assert due == sorted(due)
    assert due[-1] < times.free_after_s
    assert sum(look.stage is Stage.admit for look in times.looks) == 1
    assert {look.name for look in times.looks} <= set(NAMES)


def test_rooms_live_for_different_times() -> None:
    assert {len(timeline(room(seed), "all").looks) for seed in range(30)} == {3, 4, 5}


@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize("fault", [Fault.early_completion, Fault.chunks_late])
def test_late_bytes_are_seen_by_a_later_look(seed: int, fault: Fault) -> None:
    looks = [look.name for look in timeline(room(seed, fault), "all").looks]
    assert set(LATE_AFTER) <= set(looks[:-1])


def test_a_first_installation_looks_once() -> None:
    assert [look.stage for look in timeline(room(1), "minimal").looks] == [Stage.receive]


@pytest.mark.parametrize(
    ("name", "faults"),
    [
        ("bit_flip", {Fault.bit_flip}),
        ("late", {Fault.early_completion, Fault.chunks_late}),
        ("stale", {Fault.tail_unwritten, Fault.tail_unwritten_fresh, Fault.component_withheld}),
        ("F4", {Fault.late_write}),
        ("f8", {Fault.rows_reordered, Fault.pages_reordered}),
        ("unexplained", set()),
        ("aborted_in_flight", set()),
        ("F99", set()),
    ],
)
def test_names(name: str, faults: set[Fault]) -> None:
    assert set(faults_named(name)) == faults


def test_every_name_stands_for_something() -> None:
    assert all(faults_named(name) for name in (*names(), *NUMBERS))
    assert {fault for faults in NUMBERS.values() for fault in faults} >= set(KINDS) - {
        Fault.other_rooms_pages,
        Fault.aborted,
    }
