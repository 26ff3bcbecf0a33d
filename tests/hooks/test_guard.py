from __future__ import annotations

import logging

import pytest

from pd_tracer_hooks.guard import Guard


def fail(message: str = "no") -> None:
    raise RuntimeError(message)


def test_faults_are_swallowed_and_counted() -> None:
    guard = Guard(3)
    for _ in range(2):
        with guard:
            fail()
    assert (guard.faults, guard.detached) == (2, False)


def test_after_too_many_the_hooks_take_themselves_out_and_say_so_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    guard = Guard(3)
    with caplog.at_level(logging.ERROR, logger="pd_tracer"):
        for _ in range(5):
            with guard:
                fail()
    assert guard.detached
    assert [record.levelname for record in caplog.records] == ["ERROR"]


def test_a_fault_is_logged_once_for_each_place(caplog: pytest.LogCaptureFixture) -> None:
    guard = Guard(100)
    with caplog.at_level(logging.WARNING, logger="pd_tracer"):
        for number in range(10):
            with guard:
                fail(str(number))
        with guard:
            raise KeyError("elsewhere")
    assert len(caplog.records) == 2


def test_raising_lets_them_through_for_tests() -> None:
    guard = Guard(3, raising=True)
    with pytest.raises(RuntimeError), guard:
        fail()
    assert guard.faults == 1


@pytest.mark.parametrize("kind", [KeyboardInterrupt, SystemExit, GeneratorExit])
def test_what_ends_the_process_always_passes(kind: type[BaseException]) -> None:
    guard = Guard(1)
    with pytest.raises(kind), guard:
        raise kind
    assert guard.faults == 0


def test_a_child_counts_on_and_needs_no_lock_of_its_parent() -> None:
    guard = Guard(2)
    with guard:
        fail()
    guard._lock.acquire()  # as a thread may hold it that is not in the child
    guard.renew()
    with guard:
        fail()
    assert (guard.faults, guard.detached) == (2, True)
