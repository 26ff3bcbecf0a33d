"""Rooms with a fault done to them on purpose, as both sides would report them, and what was observed of it.

The injector decides what pages hold at each moment (prefill's when they are handed over and afterwards,
decode's before, at and after ``receive``) and which of these moments are looked at. Digests are those of the
bytes. What must be said follows from :mod:`tracer.join.tellable`, by the injector's own record.
"""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from support.rooms import D0, INDEX_K, KEY, KEY2, KV, P0, POLICY, ZEROS, Cell, Component, RoomBuilder

from pd_tracer_hooks.digest.definition import bucket_edges
from pd_tracer_hooks.wire import Coverage, EventKind, Owned, Stage
from tracer.join import judge
from tracer.join.model import Donor, Donors, How, RoomVerdict
from tracer.join.tellable import Outcome, Saw, tellable

CHUNK = 4
#: What an observer may add to send and receive. The other kinds follow from the fault and the coverage.
OPTIONAL = (
    Saw.second_send,
    Saw.later,
    Saw.release,
    Saw.allocate,
    Saw.fresh,
    Saw.layout,
    Saw.details,
    Saw.donor,
)
#: Faults that are in the bytes; the others are in what is reported.
IN_BYTES = ("F1", "F2", "F3", "F3 unwritten", "F4", "F6", "F8 unknown", "F9", "F12", "F13", "F15", "F18")
IN_REPORTS = ("F5", "F7", "F8 known", "F10", "F11", "F14", "F16")
INTACT = "F17"

Held = Mapping[Cell, str]


@dataclass
class World:
    """What the pages of one component hold at each moment, where it is not ``content``."""

    #: Prefill, as the transfer takes them, and afterwards.
    taken: dict[Cell, str] = field(default_factory=dict)
    computed: dict[Cell, str] = field(default_factory=dict)
    released: dict[Cell, str] = field(default_factory=dict)
    arrived: dict[Cell, str] = field(default_factory=dict)
    later: dict[Cell, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Injected:
    """A room, what was done to it, and what was observed."""

    fault: str
    saw: frozenset[Saw]
    room: RoomBuilder
    donors: Donors
    #: Cells of ``kv`` that do not hold what they should, at the moment that the fault shows.
    damage: frozenset[Cell]
    component: Component

    @property
    def expected(self) -> Outcome:
        """What must be said."""
        return tellable(self.fault, self.saw)

    def judged(self) -> RoomVerdict:
        """What the join says, when all deadlines are over."""
        return judge(self.room.entries, self.room.manifests, POLICY, self.room.now + 1e4, self.donors)

    def problems(self) -> list[str]:
        """How what is said is not what must be said."""
        said, expected = self.judged(), self.expected
        problems = []
        if (said.verdict, said.cause) != (expected.verdict, expected.cause):
            wanted = f"{expected.verdict.value} {expected.cause and expected.cause.value}"
            found = f"{said.verdict.value} {said.cause and said.cause.value}"
            problems.append(f"{self.fault} with {sorted(self.saw)}: {found}, not {wanted} ({said.reason})")
        if expected.exonerated and not said.exonerated:
            problems.append(f"{self.fault} with {sorted(self.saw)}: not exonerated ({said.reason})")
        (kv,) = [part for part in said.components if part.component == self.component.name] or [None]
        if kv is not None and kv.where is not None and self.damage:
            pages = {p for first, count in kv.where.page_runs for p in range(first, first + count)}
            missed = self._read({page for _, page in self.damage}) - pages
            if missed:
                problems.append(f"{self.fault}: pages {sorted(missed)} are not named ({said.reason})")
        return problems

    def _read(self, pages: set[int]) -> set[int]:
        return {page for page in pages if page in _read_pages(self.component)}


def inject(
    fault: str, saw: Iterable[Saw], rng: random.Random, coverage: Coverage = Coverage.full
) -> Injected:
    """Make a room with ``fault``, observed as ``saw`` (of :data:`OPTIONAL`) says."""
    seen = set(saw)
    pages = rng.choice([6, 9, 16, 16, 24, 70])
    kv = dataclasses.replace(
        KV, pages=pages, k=2, coverage=coverage, content=f"prompt {rng.randrange(20)}", layers=(0, 1, 2)
    )
    index_k = dataclasses.replace(INDEX_K, pages=pages, coverage=coverage, content=kv.content)
    room = RoomBuilder(room=str(rng.getrandbits(64)))
    seen |= {Saw.keys}
    if fault in IN_REPORTS:
        return _in_reports(fault, seen, room, kv, index_k)
    before = ZEROS if Saw.fresh in seen else f"before {rng.randrange(20)}"
    world, damage, whole = _damaged(fault, kv, before, rng)
    seen |= _follows(kv, damage, whole, seen)
    if fault == INTACT and coverage is Coverage.full:
        seen.add(Saw.place)
    if Saw.layout in seen:
        seen.add(Saw.manifests)
        for worker in (P0, D0):
            room.manifest(worker, kv.in_manifest(), index_k.in_manifest())
    _report(room, kv, index_k, world, before, seen)
    donors: Donors = {}
    if {Saw.donor, Saw.details} <= seen and fault == "F4":  # without page digests nobody is found
        runs = sorted({page for _, page in damage})
        donors = {(KEY, "kv"): [Donor(room="17", how=How.digests, page_runs=[(p, 1) for p in runs])]}
    return Injected(fault, frozenset(seen), room, donors, frozenset(damage), kv)


def _damaged(
    fault: str, kv: Component, before: str, rng: random.Random
) -> tuple[World, set[Cell], set[Cell]]:
    """What the pages hold, the damaged cells, and those of them that are damaged as a whole."""
    pages = range(kv.pages)
    last_chunk = (kv.pages - 1) // CHUNK * CHUNK
    layers = kv.layers if rng.random() < 0.5 else (rng.choice(kv.layers),)
    start = rng.randrange(kv.pages)
    run = range(start, min(kv.pages, start + rng.randint(1, 5)))
    world = World()

    def cells(where: Iterable[int], over: tuple[int, ...] = layers) -> set[Cell]:
        return {(layer, page) for page in where for layer in over}

    if fault == INTACT:
        return world, set(), set()
    if fault == "F2":
        run, layers = range(last_chunk), kv.layers
    elif fault.startswith("F3"):
        run = range(start, kv.pages)
    elif fault in ("F6", "F8 unknown"):
        run, layers = pages, kv.layers
    elif fault == "F18":
        run = range(start + 1)
    elif fault in ("F9", "F15"):
        run, layers = range(start, start + 1), (rng.choice(kv.layers),)
    damage = cells(run, layers)
    whole = set(damage)
    wrong = {
        "F1": before,
        "F2": before,
        "F3": ZEROS,
        "F3 unwritten": before,
        "F4": "room 17",
        "F6": before,
        "F8 unknown": f"reversed {kv.content}",
        "F12": "the next prompt",
        "F13": "something else",
        "F18": "not computed yet",
    }.get(fault, "flipped")
    bad = dict.fromkeys(sorted(damage), wrong)
    if fault == "F3" and len(run) > 1:
        edge = cells(run[:1], layers)
        bad |= dict.fromkeys(edge, f"half {kv.content}")
        whole -= edge
    if fault == "F13":
        world.later = bad
    elif fault == "F18":
        world.taken = world.arrived = world.later = bad
    else:
        world.arrived = bad
        world.later = {} if fault in ("F1", "F2") else bad
        world.released = bad if fault == "F12" else {}
    return world, damage, whole


def _follows(kv: Component, damage: set[Cell], whole: set[Cell], seen: set[Saw]) -> set[Saw]:
    """What was seen by the nature of the damage and the coverage."""
    found: set[Saw] = set()
    read = _read_pages(kv)
    if any(page in read for _, page in damage):
        found.add(Saw.place)
    if Saw.details in seen:
        found.add(Saw.order_free)
    units = [{(layer, page) for page in span for layer in kv.layers} for span in _units(kv)]
    if Saw.details in seen:
        units = [{cell} for cell in damage if cell[1] in read]
    rows = [{(la, p) for p in span} for la in kv.layers for span in _rows(kv)]
    if any(unit <= whole for unit in [*units, *rows]):
        found.add(Saw.whole_units)
    return found


def _read_pages(kv: Component) -> set[int]:
    if kv.coverage is Coverage.full:
        return set(range(kv.pages))
    return {page for span in _rows(kv) for page in span}


def _rows(kv: Component) -> list[range]:
    if kv.coverage is Coverage.full:
        return [range(kv.pages)]
    return [range(min(kv.k, kv.pages)), range(max(0, kv.pages - kv.k), kv.pages)]


def _units(kv: Component) -> list[range]:
    if kv.coverage is Coverage.full:
        edges = bucket_edges(kv.pages)
        return [range(edges[b], edges[b + 1]) for b in range(len(edges) - 1)]
    return _rows(kv)


def _report(
    room: RoomBuilder, kv: Component, index_k: Component, world: World, before: str, seen: set[Saw]
) -> None:
    """Both sides' records, stage by stage, and page digests of each look at the end."""
    told = []
    sure = {"owned": Owned.yes}
    if Saw.allocate in seen:
        room.look(Stage.allocate, kv.part(content=before, **sure), index_k.part(content=before), worker=D0)
        told.append((D0, kv.detail(Stage.allocate, content=before, order_free=True)))
    room.opened(request="r")
    for first in range(0, kv.pages, CHUNK):
        runs = [(first, min(CHUNK, kv.pages - first))]
        room.send(kv.part(runs, holds=world.taken), index_k.part(runs))
        told.append((P0, kv.detail(Stage.send, runs, holds=world.taken, order_free=True)))
        if Saw.second_send in seen:
            room.send(kv.part(runs, holds=world.computed), look=1)
            told.append((P0, kv.detail(Stage.send, runs, holds=world.computed, order_free=True, look=1)))
    room.receive(kv.part(holds=world.arrived), index_k.part(), request="r")
    told.append((D0, kv.detail(Stage.receive, holds=world.arrived, order_free=True)))
    if Saw.release in seen:
        room.look(Stage.release, kv.part(holds=world.released), index_k.part(), worker=P0)
        told.append((P0, kv.detail(Stage.release, holds=world.released, order_free=True)))
    if Saw.later in seen:
        room.look(Stage.recheck, kv.part(holds=world.arrived, **sure), index_k.part(), worker=D0, request="r")
        told.append((D0, kv.detail(Stage.recheck, holds=world.arrived, order_free=True)))
        room.look(Stage.admit, kv.part(holds=world.later, **sure), index_k.part(), worker=D0, request="r")
        told.append((D0, kv.detail(Stage.admit, holds=world.later, order_free=True)))
    if Saw.details in seen:
        for worker, detail in told:
            room.detail(worker, detail)


def _in_reports(fault: str, seen: set[Saw], room: RoomBuilder, kv: Component, index_k: Component) -> Injected:
    """Faults that no byte shows."""
    if fault == "F5":
        if Saw.layout in seen:
            seen.add(Saw.manifests)
            room.manifest(P0, kv.in_manifest(), index_k.in_manifest())
            room.manifest(D0, kv.in_manifest(), index_k.in_manifest(moved=False))
        room.opened().send(kv.part()).receive(kv.part())
    elif fault == "F7":
        room.opened().send(dataclasses.replace(kv, pages=kv.pages + 1).part()).receive(kv.part())
    elif fault in ("F8 known", "F16"):
        other = dataclasses.replace(kv, head_slice="0/2", content="half the heads")
        room.opened().send(kv.part()).receive(other.part())
    elif fault == "F10":
        room.opened(request="a").opened(request="b", keys=[KEY2])
        room.send(index_k.part(), keys=[KEY2]).send(kv.part())
        room.receive(kv.part(), request="a").receive(index_k.part(), request="b", keys=[KEY2])
    elif fault == "F11":
        room.opened().send(kv.part()).event(EventKind.freed, P0)
    else:
        room.opened()
    return Injected(fault, frozenset(seen), room, {}, frozenset(), kv)


def mixture(rooms: int, seed: int, rate: float = 0.05) -> list[Injected]:
    """Rooms of which about ``rate`` have a fault, each observed in its own way."""
    rng = random.Random(seed)
    faults = [*IN_BYTES, *IN_REPORTS]
    made = []
    for _ in range(rooms):
        fault = rng.choice(faults) if rng.random() < rate else INTACT
        saw = [one for one in OPTIONAL if rng.random() < 0.5]
        coverage = Coverage.ends if rng.random() < 0.1 else Coverage.full
        made.append(inject(fault, saw, rng, coverage))
    return made
