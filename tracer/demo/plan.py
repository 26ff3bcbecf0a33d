"""Which rooms the demo moves, and what goes wrong with which of them. Pure: a seed gives a plan."""

from __future__ import annotations

import random
from dataclasses import dataclass
from enum import Enum
from typing import Literal

import msgspec
from msgspec import Struct

from tracer.demo.geometry import Geometry, shape_of


class Fault(str, Enum):
    """What the demo can do to a room. docs/demo.md says what each stands for, and what must be found."""

    bit_flip = "bit_flip"
    tail_unwritten = "tail_unwritten"
    tail_unwritten_fresh = "tail_unwritten_fresh"
    tail_zeroed = "tail_zeroed"
    early_completion = "early_completion"
    chunks_late = "chunks_late"
    component_not_listed = "component_not_listed"
    component_withheld = "component_withheld"
    other_rooms_pages = "other_rooms_pages"
    late_write = "late_write"
    rows_reordered = "rows_reordered"
    pages_reordered = "pages_reordered"
    source_changed = "source_changed"
    sent_early = "sent_early"
    overwritten = "overwritten"
    count_mismatch = "count_mismatch"
    head_slice = "head_slice"
    never_received = "never_received"
    never_sent = "never_sent"
    aborted = "aborted"
    #: The other half of ``late_write``: the room whose write comes too late. Never asked for by itself.
    aborted_in_flight = "aborted_in_flight"
    #: Made by the wire of :mod:`tracer.demo.wire`, where there is one. Never planned.
    wire_bit_flip = "wire_bit_flip"
    room_reused = "room_reused"
    room_twice = "room_twice"
    room_twice_keyless = "room_twice_keyless"


#: How much is observed: all stages, or what a first installation has, ``send`` and ``receive``.
Stages = Literal["all", "minimal"]

#: The transfer engines that can move the bytes.
Engine = Literal["nixl", "mooncake"]

#: What can be asked for: ``aborted_in_flight`` comes with ``late_write``.
KINDS = tuple(fault for fault in Fault if fault not in (Fault.aborted_in_flight, Fault.wire_bit_flip))

#: These do no harm: what is odd about the room must not make it look damaged.
HARMLESS = (Fault.room_reused, Fault.room_twice)

#: Prefill servers. The second one's transfer list lacks index-K, the third one is a rank that holds half
#: of the heads; each runs when its fault is asked for.
PREFILL = "prefill-a"
PREFILL_WITHOUT_INDEX = "prefill-b"
PREFILL_HEAD_SLICE = "prefill-c"
DECODE = "decode-a"

_SERVERS = {Fault.component_not_listed: PREFILL_WITHOUT_INDEX, Fault.head_slice: PREFILL_HEAD_SLICE}

#: These are known only when a deadline has passed, so they go first and wait while the others run.
_SLOW = (Fault.never_received, Fault.never_sent)
#: These need pages from an earlier room.
_LATE = (Fault.other_rooms_pages, Fault.overwritten)
#: These keep another room of theirs waiting, or come in twos.
_TWICE = (Fault.room_reused, Fault.room_twice, Fault.room_twice_keyless)


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
    #: Index of the room in the same breath as which this one is opened, or -1.
    beside: int = -1
    #: Index of the room whose pages, and whose late write, this one gets; or -1.
    donor: int = -1

    @property
    def trace(self) -> str:
        """The trace id, which a router would hand to both sides."""
        return f"trace-{self.index}"


@dataclass(frozen=True, kw_only=True)
class WireTraits:
    """A wire that delays every frame, and flips one bit in so many MiB (0: none)."""

    delay_ms: float = 0.0
    flip_mib: float = 8.0


@dataclass(frozen=True, kw_only=True)
class Mix:
    """How many rooms, of what kind."""

    rooms: int = 60
    faults: tuple[Fault, ...] = KINDS
    #: Share of the rooms that something is done to; each kind occurs at least once.
    rate: float = 0.4
    #: Rooms in flight at a time. The first so many are intact.
    concurrency: int = 6
    max_tokens: int = 6000
    seed: int = 1
    #: What the workers observe.
    stages: Stages = "all"
    engine: Engine = "nixl"
    #: Whether the bytes cross a wire between two network namespaces, and what it is like.
    wire: WireTraits | None = None


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
        if fault is Fault.late_write:
            donor = _room(len(plan), Fault.aborted_in_flight, mix.max_tokens, geometry, rng)
            plan.append(donor)
            victim = _room(len(plan), fault, mix.max_tokens, geometry, rng)
            plan.append(msgspec.structs.replace(victim, donor=donor.index, after=donor.index))
            continue
        room = _room(len(plan), fault, mix.max_tokens, geometry, rng)
        plan.append(room)
        if fault in _TWICE:
            again = _room(len(plan), fault, mix.max_tokens, geometry, rng)
            place = "after" if fault is Fault.room_reused else "beside"
            plan.append(msgspec.structs.replace(again, room=room.room, **{place: room.index}))
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
        prefill=_SERVERS.get(fault, PREFILL) if fault else PREFILL,
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
    if fault in _ROW_BY_ROW:
        # Moved row by row: many small copies. At least two rows in the last page, so that it differs too.
        most = min(most, _ROW_BY_ROW_PAGES * geometry.rows)
        return max(least, rng.randint(least, most) // 2 * 2)
    return rng.randint(least, most)


_ROW_BY_ROW, _ROW_BY_ROW_PAGES = (Fault.rows_reordered, Fault.head_slice), 6


def _least(geometry: Geometry) -> dict[Fault, int]:
    """Tokens that a fault needs: a tail to cut, a page to lose, pages left alone, a second chunk."""
    two_pages, two_chunks = geometry.rows + 1, geometry.chunk_pages * geometry.rows + 1
    return {
        Fault.rows_reordered: 2,
        Fault.tail_unwritten: two_pages,
        Fault.tail_unwritten_fresh: two_pages,
        Fault.tail_zeroed: two_pages,
        Fault.count_mismatch: two_pages,
        Fault.other_rooms_pages: two_pages,
        Fault.overwritten: two_pages,
        Fault.pages_reordered: 2 * geometry.rows + 1,
        Fault.chunks_late: two_chunks,
        Fault.sent_early: two_chunks,
        Fault.late_write: two_chunks,
        Fault.aborted: two_chunks,
        Fault.aborted_in_flight: two_chunks,
    }
