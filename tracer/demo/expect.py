"""What the collector must say of each room of the demo, and whether it did. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise

from msgspec import Struct

from pd_tracer_hooks.digest.definition import bucket_edges
from pd_tracer_hooks.wire import Coverage
from tracer.demo.collector import RoomAnswer
from tracer.demo.faults import Aim
from tracer.demo.geometry import INDEX_K, KV, Geometry, shape_of
from tracer.demo.plan import HARMLESS, Fault, PlannedRoom, Stages
from tracer.demo.timeline import timeline
from tracer.demo.told import told_at_best, told_of
from tracer.join.model import Cause, ComponentVerdict, Verdict


class ExpectedComponent(Struct, frozen=True, kw_only=True):
    """What must be said of one component; what is None is not looked at."""

    verdict: Verdict
    #: Layers that differ (mismatch), or that were compared (match).
    layers: tuple[int, ...] | None = None
    #: Pages that differ, and the same widened to the buckets in which they were digested: page digests,
    #: once they are there, tell the pages themselves.
    pages: frozenset[int] = frozenset()
    buckets: frozenset[int] = frozenset()
    #: Pages as counted by prefill and by decode.
    counts: tuple[int, int] | None = None
    #: The edge of a chunk at which the damage ends.
    edge: int | None = None
    #: Looks of which the last may be named as the one before the bytes changed, if the cause is one of
    #: time. An earlier one is named while page digests of the last are not there.
    before: tuple[str, ...] = ()
    #: The room whose bytes these are, if the cause is another room.
    donor: str = ""


class Expected(Struct, frozen=True, kw_only=True):
    """What must be said of one room."""

    verdict: Verdict
    components: dict[str, ExpectedComponent] = {}
    attempts: int = 1


class Outcome(Struct, frozen=True, kw_only=True):
    """How one room came out: ``found`` if the verdict is right, ``located`` if everything is."""

    index: int
    room: str
    fault: Fault | None
    aim: Aim | None
    verdict: Verdict | None
    #: The collector's own words.
    summary: str
    coverage: Coverage | None
    found: bool
    located: bool
    problems: list[str]
    #: Why the rooms differs, by the collector, and whether that is ``told``, ``untold`` or ``wrong``.
    cause: str = ""
    told: str = ""


_ROOM_VERDICTS = {
    Fault.never_received: Verdict.missing_decode,
    Fault.never_sent: Verdict.missing_prefill,
    Fault.aborted: Verdict.aborted,
    Fault.aborted_in_flight: Verdict.aborted,
    Fault.room_twice_keyless: Verdict.ambiguous,
}


def expect(
    room: PlannedRoom, hit: Aim | None, geometry: Geometry, stages: Stages = "all", donor: str = ""
) -> Expected:
    """What must be said of ``room``, given what was done to it (``hit``; None: nothing) and observed.

    ``donor``: the room whose late write it got.
    """
    pages = shape_of(room.tokens, geometry).pages
    intact = {
        name: ExpectedComponent(verdict=Verdict.match, layers=geometry.layer_ids(name))
        for name in (KV, INDEX_K)
    }
    best = None if hit is None else told_at_best(room, hit, geometry, stages)
    if hit is None or (best is not None and best.verdict is Verdict.match):
        attempts = 2 if room.fault in HARMLESS else 1
        return Expected(verdict=Verdict.match, components=intact, attempts=attempts)
    if hit.fault in _ROOM_VERDICTS:
        attempts = 2 if hit.fault is Fault.room_twice_keyless else 1
        return Expected(verdict=_ROOM_VERDICTS[hit.fault], attempts=attempts)
    if hit.fault is Fault.count_mismatch:
        counted = ExpectedComponent(verdict=Verdict.count_mismatch, counts=(pages - 1, pages))
        return Expected(verdict=Verdict.count_mismatch, components={KV: counted, INDEX_K: counted})
    if hit.fault is Fault.component_not_listed:
        missing = ExpectedComponent(verdict=Verdict.missing_component)
        return Expected(verdict=Verdict.missing_component, components=intact | {hit.component: missing})
    if hit.fault is Fault.head_slice:
        sliced = ExpectedComponent(verdict=Verdict.incomparable)
        return Expected(verdict=Verdict.incomparable, components=intact | {hit.component: sliced})
    damaged = ExpectedComponent(
        verdict=Verdict.mismatch,
        layers=hit.layers,
        pages=frozenset(hit.pages),
        buckets=bucket_pages(hit.pages, pages),
        edge=hit.pages[-1] + 1 if hit.fault is Fault.chunks_late else None,
        before=_looks_until(hit.after, room, stages),
        donor=donor,
    )
    return Expected(verdict=Verdict.mismatch, components=intact | {hit.component: damaged})


def _looks_until(look: str, room: PlannedRoom, stages: Stages) -> tuple[str, ...]:
    """The room's looks up to ``look``, in their order."""
    names = [each.name for each in timeline(room, stages).looks]
    return tuple(names[: names.index(look) + 1]) if look in names else ()


def bucket_pages(damaged: Iterable[int], pages: int) -> frozenset[int]:
    """All pages of the buckets that hold ``damaged`` ones, in a transfer of ``pages``."""
    hit = set(damaged)
    edges = bucket_edges(pages)
    buckets = [range(start, end) for start, end in pairwise(edges)]
    return frozenset(page for bucket in buckets if hit.intersection(bucket) for page in bucket)


def compare(expected: Expected, answer: RoomAnswer | None) -> list[str]:
    """What is wrong with the answer, in words. The first problem is of the verdict, if that is wrong."""
    if answer is None:
        return ["the collector does not know the room"]
    if answer.verdict is not expected.verdict:
        return [f"verdict {answer.verdict.value}, expected {expected.verdict.value}: {answer.reason}"]
    problems = []
    if len(answer.attempts) != expected.attempts:
        problems.append(f"{len(answer.attempts)} attempts, expected {expected.attempts}")
    if expected.verdict is Verdict.match:
        problems += [
            f"attempt {attempt.number}: {attempt.verdict.value}"
            for attempt in answer.attempts
            if attempt.verdict is not Verdict.match
        ]
    said = {component.component: component for component in answer.components}
    for name, wanted in expected.components.items():
        if name in said:
            problems += [f"{name}: {problem}" for problem in _compare(wanted, said[name])]
        else:
            problems.append(f"{name}: nothing is said of it")
    return problems


def _compare(wanted: ExpectedComponent, said: ComponentVerdict) -> list[str]:
    if said.verdict is not wanted.verdict:
        return [f"{said.verdict.value}, expected {wanted.verdict.value}: {said.reason}"]
    problems = []
    counts = (said.prefill.pages, said.decode.pages)
    if wanted.counts is not None and counts != wanted.counts:
        problems.append(f"counts {counts}, expected {wanted.counts}")
    if wanted.verdict is Verdict.match:
        if said.coverage is not Coverage.full:
            problems.append(f"coverage {said.coverage}, expected full")
        if wanted.layers is not None and tuple(said.layers) != wanted.layers:
            problems.append(f"compared layers {said.layers}, expected {list(wanted.layers)}")
    if wanted.verdict is Verdict.mismatch:
        if said.where is None:
            return [*problems, "no place is named"]
        if wanted.layers is not None and tuple(said.where.layers) != wanted.layers:
            problems.append(f"layers {said.where.layers}, expected {list(wanted.layers)}")
        pages = {first + i for first, count in said.where.page_runs for i in range(count)}
        if pages not in (wanted.pages, wanted.buckets):
            problems.append(f"pages {sorted(pages)}, expected {sorted(wanted.pages)}")
        problems += _compare_tale(wanted, said)
    return problems


def _compare_tale(wanted: ExpectedComponent, said: ComponentVerdict) -> list[str]:
    """What is said beside the place: at which edge, since when, by whom."""
    problems = []
    if wanted.edge is not None and wanted.edge not in said.chunk_edges:
        problems.append(f"edges of chunks {said.chunk_edges}, expected {wanted.edge}")
    if said.cause in (Cause.late, Cause.overwritten):
        before = None if said.timing is None else said.timing.before
        if wanted.before and before not in wanted.before:
            problems.append(f"the last look before the change is {before}, expected {wanted.before[-1]}")
    if (
        said.cause is Cause.cross_room
        and wanted.donor
        and wanted.donor not in {donor.room for donor in said.donors}
    ):
        problems.append(f"donors {[donor.room for donor in said.donors]}, expected {wanted.donor}")
    return problems


def judge(
    room: PlannedRoom,
    hit: Aim | None,
    answer: RoomAnswer | None,
    geometry: Geometry,
    stages: Stages = "all",
    *,
    donor: str = "",
) -> Outcome:
    """Hold the collector's answer against what was planned and against what was really done."""
    expected = expect(room, hit, geometry, stages, donor)
    problems = compare(expected, answer)
    made = hit is not None or room.fault in (None, *HARMLESS)
    cause = None if answer is None else answer.cause
    told = told_of(room, hit, geometry, stages, cause) if hit is not None and cause is not None else ""
    if told == "wrong":
        problems.append(f"cause {cause and cause.value}, which is not what was done")
    if not made:
        problems = ["the fault was planned and not made", *problems]
    return Outcome(
        index=room.index,
        room=room.room,
        fault=room.fault or (hit.fault if hit is not None else None),
        aim=hit,
        verdict=None if answer is None else answer.verdict,
        summary="" if answer is None else answer.summary,
        coverage=None if answer is None else answer.coverage,
        found=made and answer is not None and answer.verdict is expected.verdict,
        located=not problems,
        problems=problems,
        cause="" if cause is None else cause.value,
        told=told,
    )
