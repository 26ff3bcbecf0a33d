"""All looks at one component of one transfer: what each of them saw, and when.

``send`` and ``receive`` decide whether something differs. The others tell why, and are put together only when
there is something to tell.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from msgspec import Struct

from pd_tracer_hooks.wire import Detail, Event, EventKind, Observation, Owned, Side, Stage
from tracer.join.model import AnyEntry, Entry
from tracer.join.order import by_worker
from tracer.join.parts import Part, SideSum, add_up, gather
from tracer.join.scene import Scene
from tracer.join.transfers import is_look
from tracer.join.values import Values

#: Stages of the prefill side, and those of decode after ``receive``.
PREFILL = frozenset({Stage.send, Stage.release})
LATER = frozenset({Stage.recheck, Stage.admit})

#: Stage, and number of the look.
LookKey = tuple[Stage, int]
#: What is compared first of all, and was found comparable before anything here is asked.
_COMPARED: frozenset[LookKey] = frozenset({(Stage.send, 0), (Stage.receive, 0)})


class Look(Struct, frozen=True):
    """One look at a component: all workers' parts of it, added up."""

    name: str
    total: SideSum
    values: Values
    #: Whether every part was read while its pages were known to be the room's.
    owned: bool
    #: By worker: when its last part was read, and what its ``seq`` is.
    read_at: dict[str, float]
    signalled_at: dict[str, float]
    seq: int


class Looks(Struct, frozen=True):
    """The looks at one component."""

    #: What should have arrived: the second look at ``send`` where there is one, else the first.
    sent: Look
    #: What the transfer's own moment saw, where a second look at ``send`` saw more.
    sent_at_once: Look | None
    received: Look
    release: Look | None
    allocate: Look | None
    #: Whether ``allocate`` had been read when the pages were handed out.
    allocate_in_time: bool
    #: ``recheck`` and ``admit``, in the order in which they were made.
    later: list[Look]
    #: What cannot be used, and why.
    unusable: list[str]


def name_of(stage: Stage, number: int) -> str:
    """``recheck``, ``recheck 1``."""
    return f"{stage.value} {number}" if number else stage.value


def looks_at(name: str, scene: Scene) -> Looks:
    """Put together all looks at a component of which both sides are complete."""
    return _Album(name, scene).looks()


class _Album:
    """The entries that look at one component, by stage and number of the look."""

    def __init__(self, name: str, scene: Scene) -> None:
        self._name, self._scene = name, scene
        self._first = {Stage.send: scene.prefill[name], Stage.receive: scene.decode[name]}
        self._details = _details(name, scene.details)
        self._entries: dict[LookKey, list[Entry]] = {}
        for entry in [*_standing(scene.prefill_entries), *scene.decode_entries]:
            record = entry.record
            if isinstance(record, Observation) and any(c.name == name for c in record.components):
                self._entries.setdefault((record.stage, record.look), []).append(entry)

    def looks(self) -> Looks:
        found: dict[LookKey, Look] = {}
        unusable: list[str] = []
        for key in self._entries:
            look = self._look(*key)
            if key in _COMPARED or _is_usable(look, unusable):
                found[key] = look
        first, received = found[Stage.send, 0], found[Stage.receive, 0]
        again = found.get((Stage.send, 1))
        whole = self._completed(first, again) if again is not None else None
        allocate = found.get((Stage.allocate, 0))
        in_time = allocate is not None and _before_hand_out(
            self._entries[Stage.allocate, 0], self._scene.decode_entries
        )
        later = [look for (stage, _), look in found.items() if stage in LATER]
        return Looks(
            sent=whole or first,
            sent_at_once=first if whole is not None else None,
            received=received,
            release=found.get((Stage.release, 0)),
            allocate=allocate,
            allocate_in_time=in_time,
            later=sorted(later, key=lambda look: look.seq),
            unusable=unusable,
        )

    def _look(self, stage: Stage, number: int, total: SideSum | None = None) -> Look:
        entries = self._entries[stage, number]
        details = self._details.get((stage, number), [])
        if total is not None:  # of two looks
            details = [*details, *self._details.get((stage, 0), [])]
        elif number == 0 and stage in self._first:
            total = self._first[stage]
        else:
            side = Side.prefill if stage in PREFILL else Side.decode
            total = add_up(side.value, gather(entries)[self._name])
        read_at: dict[str, float] = {}
        signalled: dict[str, float] = {}
        for entry in entries:
            record, worker = entry.record, entry.worker.id
            if isinstance(record, Observation):
                read_at[worker] = max(record.at, read_at.get(worker, 0.0))
                if record.signalled_at is not None:
                    signalled[worker] = max(record.signalled_at, signalled.get(worker, 0.0))
        return Look(
            name=name_of(stage, number),
            total=total,
            values=Values(total, self._first[Stage.receive], details),
            owned=all(part.digest.owned is Owned.yes for part in total.parts),
            read_at=read_at,
            signalled_at=signalled,
            seq=min(entry.record.seq for entry in entries),
        )

    def _completed(self, first: Look, again: Look) -> Look | None:
        """The second look at ``send``, with the first one's parts where no second was needed."""
        second = {_extent(part): part for part in again.total.parts}
        mine = {_extent(part) for part in first.total.parts}
        if not mine.issuperset(second):
            return None
        total = add_up(Side.prefill.value, [second.get(_extent(part), part) for part in first.total.parts])
        usable = total.complete and total.problem is None
        return self._look(Stage.send, 1, total) if usable else None


def _is_usable(look: Look, unusable: list[str]) -> bool:
    """Whether a look can be compared; else the reason is added to ``unusable``."""
    if look.total.freed:
        unusable.append(f"{look.name} was read when the pages were no longer the room's")
    elif look.total.problem is not None:
        unusable.append(f"{look.name} cannot be used: {look.total.problem.reason}")
    else:
        return True
    return False


def _extent(part: Part) -> tuple[str, tuple[int, ...], tuple[tuple[int, int], ...]]:
    return part.worker, tuple(part.digest.layers), tuple(part.digest.runs)


def _standing(prefill: Sequence[Entry]) -> Iterable[Entry]:
    """Prefill's entries without what a worker had said before it retracted the request and sent it again."""
    if not any(_is_retraction(entry) for entry in prefill):
        return prefill
    standing: list[Entry] = []
    for mine in by_worker(prefill).values():
        last = max((i for i, entry in enumerate(mine) if _is_retraction(entry)), default=-1)
        sent_again = any(is_look(entry, Stage.send) for entry in mine[last + 1 :])
        standing += mine[last + 1 :] if sent_again else mine
    return standing


def _is_retraction(entry: Entry) -> bool:
    return isinstance(entry.record, Event) and entry.record.kind is EventKind.retracted


def _before_hand_out(allocates: Sequence[Entry], decode: Sequence[Entry]) -> bool:
    """Whether each worker's ``allocate`` was asked for before its ``opened``, and read by then."""
    opened = {
        (entry.worker.id, entry.worker.boot): entry.record
        for entry in decode
        if isinstance(entry.record, Event) and entry.record.kind is EventKind.opened
    }
    for entry in allocates:
        event = opened.get((entry.worker.id, entry.worker.boot))
        if event is None or entry.record.seq > event.seq or entry.record.at > event.at:
            return False
    return bool(allocates)


def _details(name: str, details: Sequence[AnyEntry]) -> dict[LookKey, list[tuple[str, Detail]]]:
    told: dict[LookKey, list[tuple[str, Detail]]] = {}
    for entry in details:
        record = entry.record
        if isinstance(record, Detail) and record.component == name:
            told.setdefault((record.stage, record.look), []).append((entry.worker.id, record))
    return told


def unusable_digests(looks: Looks) -> list[str]:
    """Page digests that came and are of none of the looks, in words."""
    several = (looks.sent, looks.sent_at_once, looks.received, looks.release, looks.allocate, *looks.later)
    return [
        f"page digests of {look.name} came that do not add up to its sums, and were left aside"
        for look in several
        if look is not None and look.values.cells.strange and not look.values.cells.digests
    ]
