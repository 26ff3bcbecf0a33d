"""Which cause is to be told: never more than what was observed allows."""

import pytest

from tracer.demo.faults import Aim
from tracer.demo.geometry import KV, Geometry
from tracer.demo.plan import Fault, PlannedRoom, Stages
from tracer.demo.told import CAUSES, ROWS, told_at_best, told_of
from tracer.join.model import Cause, Verdict

GEOMETRY = Geometry()
ALL = GEOMETRY.layer_ids(KV)


def room(pages: int = 10) -> PlannedRoom:
    return PlannedRoom(index=1, room="1", tokens=pages * 64, seed=1)


def hit(fault: Fault, *pages: int, layers: tuple[int, ...] = ALL, offset: int = 0) -> Aim:
    return Aim(fault=fault, component=KV, layers=layers, pages=pages, offset=offset)


TAIL = Fault.tail_unwritten


@pytest.mark.parametrize(
    ("aim", "pages", "stages", "cause", "told"),
    [
        (hit(TAIL, 7, 8, 9), 10, "all", Cause.stale, "told"),
        (hit(TAIL, 7, 8, 9), 10, "all", Cause.unexplained, "untold"),
        (hit(TAIL, 7, 8, 9), 10, "all", Cause.late, "wrong"),
        # Without what lay there before, stale is more than the evidence says.
        (hit(TAIL, 7, 8, 9), 10, "minimal", Cause.stale, "wrong"),
        (hit(TAIL, 7, 8, 9), 10, "minimal", Cause.unexplained, "told"),
        # One layer of many: page digests tell, sums over all layers do not.
        (hit(TAIL, 7, 8, 9, layers=(2,)), 10, "all", Cause.stale, "told"),
        (hit(TAIL, 7, 8, 9, layers=(2,)), 10, "all", Cause.unexplained, "untold"),
        # A page that is half right is neither what was there nor what was sent.
        (hit(TAIL, 9, offset=4096), 10, "all", Cause.unexplained, "told"),
        (hit(TAIL, 9, offset=4096), 10, "all", Cause.stale, "wrong"),
        (hit(Fault.tail_zeroed, 8, 9), 10, "minimal", Cause.zeroed, "told"),
        (hit(Fault.tail_unwritten_fresh, 8, 9), 10, "all", Cause.stale, "told"),
        (hit(Fault.tail_unwritten_fresh, 8, 9), 10, "minimal", Cause.zeroed, "told"),
        (hit(Fault.early_completion, 8, 9), 10, "all", Cause.late, "told"),
        (hit(Fault.early_completion, 8, 9), 10, "minimal", Cause.late, "wrong"),
        (hit(Fault.late_write, 3, 4), 10, "all", Cause.cross_room, "told"),
        (hit(Fault.late_write, 3, 4), 10, "all", Cause.unexplained, "untold"),
        (hit(Fault.bit_flip, 3, layers=(1,)), 10, "all", Cause.unexplained, "told"),
        (hit(Fault.head_slice, 3), 10, "all", Cause.unexplained, ""),
    ],
)
def test_causes_that_may_be_named(aim: Aim, pages: int, stages: Stages, cause: Cause, told: str) -> None:
    assert told_of(room(pages), aim, GEOMETRY, stages, cause) == told


@pytest.mark.parametrize("fault", [Fault.overwritten, Fault.sent_early])
def test_some_damage_is_seen_by_later_looks_alone(fault: Fault) -> None:
    for stages, verdict in (("all", Verdict.mismatch), ("minimal", Verdict.match)):
        best = told_at_best(room(), hit(fault, 3), GEOMETRY, stages)  # type: ignore[arg-type]
        assert best is not None
        assert best.verdict is verdict


def test_a_bucket_of_several_pages_is_whole_or_not() -> None:
    for pages, cause in (((100, 101), Cause.stale), ((101,), Cause.unexplained)):
        best = told_at_best(room(128), hit(Fault.component_withheld, *pages), GEOMETRY, "all", frozenset())
        assert best is not None
        assert best.cause is cause


def test_every_damage_has_a_row_and_a_cause() -> None:
    assert set(ROWS) == set(CAUSES)
