"""Which rooms the demo moves, and what goes wrong with which of them. Pure: a seed gives a plan."""

from __future__ import annotations

import random
from dataclasses import dataclass
from enum import Enum

import msgspec
from msgspec import Struct

from tracer.demo.geometry import Geometry, shape_of


class Fault(str, Enum):
    """What the demo can do to a room. docs/demo.md says what each stands for, and what must be found."""

    bit_flip = "bit_flip"
    tail_unwritten = "tail_unwritten"
    early_completion = "early_completion"
    component_not_listed = "component_not_listed"
    component_withheld = "component_withheld"
    other_rooms_pages = "other_rooms_pages"
    count_mismatch = "count_mismatch"
    never_received = "never_received"
    never_sent = "never_sent"
    aborted = "aborted"
    room_reused = "room_reused"


#: Prefill servers. The second one's transfer list lacks index-K; it runs when that fault is asked for.
PREFILL = "prefill-a"
PREFILL_WITHOUT_INDEX = "prefill-b"
DECODE = "decode-a"

#: These are known only when a deadline has passed, so they go first and wait while the others run.
_SLOW = (Fault.never_received, Fault.never_sent)
#: These need pages from an earlier room.
_LATE = (Fault.other_rooms_pages,)


class PlannedRoom(Struct, frozen=True, kw_only=True):
    """One transfer that the demo makes."""

    #: Place in the plan, unique; both sides see it in the request ids.
    index: int
    room: str
    tokens: int
    prefill: str = PREFILL
    fault: Fault | None = None
    #: Decides the room's contents and where its fault hits.
    seed: int
    #: Index of a room that must be done before this one is opened, or -1.
    after: int = -1

    @property
    def trace(self) -> str:
        """The trace id, which a router would hand to both sides."""
        return f"trace-{self.index}"


@dataclass(frozen=True, kw_only=True)
class Mix:
    """How many rooms, of what kind."""

    rooms: int = 60
    faults: tuple[Fault, ...] = tuple(Fault)
    #: Share of the rooms that something is done to; each kind occurs at least once.
    rate: float = 0.4
    #: Rooms in flight at a time. The first so many are intact.
    concurrency: int = 6
    max_tokens: int = 6000
    seed: int = 1


def make_plan(mix: Mix, geometry: Geometry) -> list[PlannedRoom]:
    """Plan the rooms of a demo in the order in which they are opened.

    Raises ``ValueError`` if the mix leaves no room intact or does not fit into the pools, or for a rate
    outside 0 to 1.
    """
    if not 0 <= mix.rate <= 1:
        raise ValueError(f"rate={mix.rate}: a share between 0 and 1")
    kinds = list(dict.fromkeys(mix.faults))
    damaged = max(len(kinds), round(mix.rate * mix.rooms)) if kinds and mix.rate > 0 else 0
    if mix.rooms < damaged + 1:
        raise ValueError(
            f"rooms={mix.rooms}: {damaged} with a fault and at least 1 intact one need {damaged + 1}; "
            "ask for more rooms, a lower rate or fewer faults"
        )
    faults = [kinds[i % len(kinds)] for i in range(damaged)]
    stuck = faults.count(Fault.never_sent)
    largest = shape_of(max(mix.max_tokens, *_least(geometry).values()), geometry).pages
    if stuck + largest >= geometry.pool_pages:
        raise ValueError(
            f"max_tokens={mix.max_tokens}, rooms={mix.rooms}: a room of {largest} pages and {stuck} "
            f"pages that are never sent do not fit into the pool's {geometry.pool_pages - 1}; ask for fewer"
        )
    rng = random.Random(mix.seed)  # noqa: S311 - a plan that can be repeated, nothing secret
    order = _arrange(faults, mix.rooms - damaged, rng)
    plan: list[PlannedRoom] = []
    for fault in order:
        room = _room(len(plan), fault, mix.max_tokens, geometry, rng)
        plan.append(room)
        if fault is Fault.room_reused:
            again = _room(len(plan), fault, mix.max_tokens, geometry, rng)
            plan.append(msgspec.structs.replace(again, room=room.room, after=room.index))
    return plan


def _arrange(faults: list[Fault], intact: int, rng: random.Random) -> list[Fault | None]:
    """One intact room, then the slow faults, then the mixture, with what needs earlier rooms in its rear."""
    slow = [fault for fault in faults if fault in _SLOW]
    late = [fault for fault in faults if fault in _LATE]
    rest: list[Fault | None] = [fault for fault in faults if fault not in (*_SLOW, *_LATE)]
    rest += [None] * (intact - 1)
    rng.shuffle(rest)
    for fault in late:
        rest.insert(rng.randint(len(rest) // 2, len(rest)), fault)
    return [None, *slow, *rest]


def _room(
    index: int, fault: Fault | None, max_tokens: int, geometry: Geometry, rng: random.Random
) -> PlannedRoom:
    return PlannedRoom(
        index=index,
        # Any unsigned 64-bit number, as the largest engines' routers draw them.
        room=str(rng.getrandbits(64)),
        tokens=_tokens(index, fault, max_tokens, geometry, rng),
        prefill=PREFILL_WITHOUT_INDEX if fault is Fault.component_not_listed else PREFILL,
        fault=fault,
        seed=rng.getrandbits(32),
    )


def _tokens(index: int, fault: Fault | None, max_tokens: int, geometry: Geometry, rng: random.Random) -> int:
    """Mostly short, some long, as prompts are; the first room has a single token."""
    if index == 0:
        return 1
    if fault is Fault.never_sent:
        return rng.randint(1, geometry.rows)  # one page, since nobody ever frees it
    least = _least(geometry).get(fault, 1) if fault else 1
    long = rng.random() < 0.2
    most = max(least, max_tokens if long else min(max_tokens, 1500))
    return rng.randint(least, most)


def _least(geometry: Geometry) -> dict[Fault, int]:
    """Tokens that a fault needs: a tail to cut, a page to lose, pages left alone, a second chunk to abort."""
    two_pages = geometry.rows + 1
    return {
        Fault.tail_unwritten: two_pages,
        Fault.count_mismatch: two_pages,
        Fault.other_rooms_pages: two_pages,
        Fault.aborted: geometry.chunk_pages * geometry.rows + 1,
    }
