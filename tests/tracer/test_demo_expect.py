"""The demo's own judgement: what a room's answer must say, and that anything else is a problem."""

from typing import Any

import msgspec
import pytest

from pd_tracer_hooks.wire import Coverage
from tracer.demo.collector import RoomAnswer
from tracer.demo.expect import bucket_pages, judge
from tracer.demo.faults import Aim
from tracer.demo.geometry import INDEX_K, KV, Geometry
from tracer.demo.plan import Fault, PlannedRoom
from tracer.join.model import (
    Attempt,
    Cause,
    ComponentVerdict,
    Donor,
    How,
    SideExtent,
    Timing,
    Verdict,
    Where,
)

GEOMETRY = Geometry()
LAYERS = {KV: [0, 1, 2, 3, 4, 5], INDEX_K: [0, 2, 3, 5]}


def room(fault: Fault | None, tokens: int = 130) -> PlannedRoom:
    return PlannedRoom(index=1, room="17", tokens=tokens, fault=fault, seed=1)


def component(name: str, verdict: Verdict = Verdict.match, **more: object) -> ComponentVerdict:
    plain = ComponentVerdict(component=name, verdict=verdict, coverage=Coverage.full, layers=LAYERS[name])
    return msgspec.structs.replace(plain, **more)


def answer(verdict: Verdict, *components: ComponentVerdict, attempts: int = 1) -> RoomAnswer:
    return RoomAnswer(
        verdict=verdict,
        components=list(components),
        attempts=[Attempt(number=i, verdict=verdict) for i in range(attempts)],
    )


def damaged(name: str, layers: list[int], page_runs: list[tuple[int, int]]) -> ComponentVerdict:
    return component(name, Verdict.mismatch, where=Where(layers=layers, page_runs=page_runs))


INTACT = answer(Verdict.match, component(KV), component(INDEX_K))
FLIP = Aim(fault=Fault.bit_flip, component=KV, layers=(3,), pages=(1,))
FLIPPED = answer(Verdict.mismatch, damaged(KV, [3], [(1, 1)]), component(INDEX_K))
MISSING = component(INDEX_K, Verdict.missing_component)
SHORT = SideExtent(pages=2), SideExtent(pages=3)


def counted(prefill: SideExtent, decode: SideExtent) -> RoomAnswer:
    return answer(
        Verdict.count_mismatch,
        *(component(name, Verdict.count_mismatch, prefill=prefill, decode=decode) for name in (KV, INDEX_K)),
    )


RIGHT = [
    (room(None), None, INTACT),
    (room(Fault.bit_flip), FLIP, FLIPPED),
    (
        room(Fault.component_withheld),
        Aim(fault=Fault.component_withheld, component=INDEX_K, layers=(0, 2, 3, 5), pages=(0, 1, 2)),
        answer(Verdict.mismatch, component(KV), damaged(INDEX_K, [0, 2, 3, 5], [(0, 3)])),
    ),
    (
        room(Fault.component_not_listed),
        Aim(fault=Fault.component_not_listed, component=INDEX_K, layers=(0, 2, 3, 5), pages=(0, 1, 2)),
        answer(Verdict.missing_component, component(KV), MISSING),
    ),
    (room(Fault.count_mismatch), Aim(fault=Fault.count_mismatch), counted(*SHORT)),
    (room(Fault.never_received), Aim(fault=Fault.never_received), answer(Verdict.missing_decode)),
    (room(Fault.never_sent), Aim(fault=Fault.never_sent), answer(Verdict.missing_prefill)),
    (room(Fault.aborted), Aim(fault=Fault.aborted), answer(Verdict.aborted)),
    (
        room(Fault.room_reused),
        None,
        answer(Verdict.match, component(KV), component(INDEX_K), attempts=2),
    ),
    # More than 64 pages: the collector knows buckets, here of two pages.
    (
        room(Fault.bit_flip, tokens=128 * 64),
        msgspec.structs.replace(FLIP, pages=(101,)),
        answer(Verdict.mismatch, damaged(KV, [3], [(100, 2)]), component(INDEX_K)),
    ),
    # Once page digests were asked for it knows the page.
    (
        room(Fault.bit_flip, tokens=128 * 64),
        msgspec.structs.replace(FLIP, pages=(101,)),
        answer(Verdict.mismatch, damaged(KV, [3], [(101, 1)]), component(INDEX_K)),
    ),
]


LATE = Aim(
    fault=Fault.chunks_late, component=KV, layers=tuple(LAYERS[KV]), pages=tuple(range(16)), after="admit"
)
CROSSED = msgspec.structs.replace(LATE, fault=Fault.late_write, after="")


def caused(cause: Cause, **more: Any) -> RoomAnswer:
    """A room whose first chunk is damaged in all layers, explained."""
    kv = msgspec.structs.replace(damaged(KV, LAYERS[KV], [(0, 16)]), cause=cause, **more)
    return msgspec.structs.replace(answer(Verdict.mismatch, kv, component(INDEX_K)), cause=cause)


def donor(name: str) -> Donor:
    return Donor(room=name, how=How.digests, page_runs=[(0, 16)])


def timing(before: str) -> Timing:
    return Timing(look="recheck 1", after_receive_s=0.05, before=before)


@pytest.mark.parametrize(
    ("hit", "said", "told", "problems"),
    [
        (LATE, caused(Cause.late, chunk_edges=[16], timing=timing("admit")), "told", []),
        (
            LATE,
            caused(Cause.late, timing=timing("recheck 2")),
            "told",
            [
                "kv: edges of chunks [], expected 16",
                "kv: the last look before the change is recheck 2, expected admit",
            ],
        ),
        (LATE, caused(Cause.unexplained, chunk_edges=[16]), "untold", []),
        (
            LATE,
            caused(Cause.source_changed, chunk_edges=[16]),
            "wrong",
            ["cause source_changed, which is not what was done"],
        ),
        (CROSSED, caused(Cause.cross_room, donors=[donor("16")]), "told", []),
        (CROSSED, caused(Cause.cross_room, donors=[donor("1")]), "told", ["kv: donors ['1'], expected 16"]),
        (CROSSED, caused(Cause.unexplained), "untold", []),
    ],
)
def test_what_is_said_of_the_cause(hit: Aim, said: RoomAnswer, told: str, problems: list[str]) -> None:
    outcome = judge(room(hit.fault, tokens=20 * 64), hit, said, GEOMETRY, donor="16")
    assert (outcome.told, outcome.problems) == (told, problems)
    assert outcome.found


@pytest.mark.parametrize("fault", [Fault.overwritten, Fault.sent_early])
def test_few_stages_do_not_see_everything(fault: Fault) -> None:
    hit = msgspec.structs.replace(LATE, fault=fault)
    planned = room(fault, tokens=20 * 64)
    assert judge(planned, hit, INTACT, GEOMETRY, "minimal").located
    assert not judge(planned, hit, INTACT, GEOMETRY, "all").found


@pytest.mark.parametrize(("planned", "hit", "said"), RIGHT)
def test_right_answers(planned: PlannedRoom, hit: Aim | None, said: RoomAnswer) -> None:
    outcome = judge(planned, hit, said, GEOMETRY)
    assert (outcome.found, outcome.located, outcome.problems) == (True, True, [])


@pytest.mark.parametrize(
    ("planned", "hit", "said", "found", "problem"),
    [
        # An intact room is blamed, or not known, or not done.
        (room(None), None, FLIPPED, False, "verdict mismatch, expected match"),
        (room(None), None, None, False, "does not know the room"),
        (room(None), None, answer(Verdict.pending), False, "verdict pending"),
        # A match that did not look at everything.
        (
            room(None),
            None,
            answer(Verdict.match, component(KV, coverage=Coverage.ends), component(INDEX_K)),
            True,
            "kv: coverage",
        ),
        (
            room(None),
            None,
            answer(Verdict.match, component(KV, layers=[0]), component(INDEX_K)),
            True,
            r"kv: compared layers \[0\]",
        ),
        (room(None), None, answer(Verdict.match, component(KV)), True, "index_k: nothing is said"),
        # A fault is missed, or put elsewhere.
        (room(Fault.bit_flip), FLIP, INTACT, False, "verdict match, expected mismatch"),
        (
            room(Fault.bit_flip),
            FLIP,
            answer(Verdict.mismatch, damaged(KV, [2], [(1, 1)]), component(INDEX_K)),
            True,
            r"kv: layers \[2\], expected \[3\]",
        ),
        (
            room(Fault.bit_flip),
            FLIP,
            answer(Verdict.mismatch, damaged(KV, [3], [(1, 2)]), component(INDEX_K)),
            True,
            r"kv: pages \[1, 2\], expected \[1\]",
        ),
        (
            room(Fault.bit_flip),
            FLIP,
            answer(Verdict.mismatch, component(KV), damaged(INDEX_K, [3], [(1, 1)])),
            True,
            "kv: match, expected mismatch",
        ),
        (
            room(Fault.bit_flip),
            FLIP,
            answer(Verdict.mismatch, component(KV, Verdict.mismatch), component(INDEX_K)),
            True,
            "kv: no place is named",
        ),
        (room(Fault.count_mismatch), Aim(fault=Fault.count_mismatch), counted(*SHORT[::-1]), True, "counts"),
        (room(Fault.room_reused), None, INTACT, True, "1 attempts, expected 2"),
        # The fault never happened, so whatever is said of it is no proof.
        (room(Fault.bit_flip), None, FLIPPED, False, "planned and not made"),
    ],
)
def test_wrong_answers(
    planned: PlannedRoom, hit: Aim | None, said: RoomAnswer | None, found: bool, problem: str
) -> None:
    outcome = judge(planned, hit, said, GEOMETRY)
    assert outcome.found is found
    assert not outcome.located
    with pytest.raises(AssertionError, match=problem):
        raise AssertionError("; ".join(outcome.problems))


@pytest.mark.parametrize(
    ("hit", "pages", "expected"),
    [
        ((2,), 64, {2}),
        ((2,), 128, {2, 3}),
        ((0, 3), 130, {0, 1, 2, 3}),
        ((), 10, set()),
    ],
)
def test_pages_are_known_by_bucket(hit: tuple[int, ...], pages: int, expected: set[int]) -> None:
    assert bucket_pages(hit, pages) == expected
