"""When decode looks at a room that has arrived, and when it lets go of it. Pure: a seed gives a timeline."""

from __future__ import annotations

import random
from dataclasses import dataclass

from pd_tracer_hooks.wire import Stage
from tracer.demo.plan import Fault, PlannedRoom, Stages
from tracer.join.looks import name_of

#: The stages that are observed.
OBSERVED: dict[Stages, frozenset[Stage]] = {
    "all": frozenset({Stage.send, Stage.release, Stage.allocate, Stage.receive, Stage.recheck, Stage.admit}),
    "minimal": frozenset({Stage.send, Stage.receive}),
}

RECEIVE, ADMIT = "receive", "admit"
#: Seconds after ``receive`` at which the rows are read again, while they are the room's.
RECHECKS_S = (0.005, 0.05, 0.5)
NAMES = (RECEIVE, ADMIT, *(name_of(Stage.recheck, number) for number in range(len(RECHECKS_S))))

#: Looks behind which late bytes may come: some later look then sees them, in any room of :data:`_LONG`.
LATE_AFTER = NAMES[:-1]

#: Rooms that decode for so long that all looks are made.
_LONG = (Fault.early_completion, Fault.chunks_late)
#: How long requests decode, and how long they wait for their batch before.
_LIVES_S = (0.03, 0.12, 0.55)
_WAITS_S = (0.001, 0.02, 0.2)


@dataclass(frozen=True)
class LookAt:
    """A look that is due ``after_s`` seconds after the room was received. ``number``: of rechecks."""

    after_s: float
    stage: Stage
    number: int = 0

    @property
    def name(self) -> str:
        """One of :data:`NAMES`, the collector's words."""
        return name_of(self.stage, self.number)


@dataclass(frozen=True)
class Timeline:
    """The looks in their order, ``receive`` first, and when the room's pages are freed at the earliest."""

    looks: tuple[LookAt, ...]
    free_after_s: float


def timeline(room: PlannedRoom, stages: Stages) -> Timeline:
    """The looks at one room. Its last look is always behind all that could happen to it."""
    receive = LookAt(0.0, Stage.receive)
    if stages == "minimal":
        return Timeline((receive,), 0.0)
    rng = random.Random(f"timeline {room.seed}")  # noqa: S311 - repeatable, nothing secret
    life = _LIVES_S[-1] if room.fault in _LONG else rng.choice(_LIVES_S)
    wait = rng.choice([wait for wait in _WAITS_S if wait < life])
    later = [LookAt(after, Stage.recheck, number) for number, after in enumerate(RECHECKS_S) if after < life]
    later.append(LookAt(wait, Stage.admit))
    later.sort(key=lambda look: look.after_s)
    return Timeline((receive, *later), life)
