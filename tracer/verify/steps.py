"""What was seen, and so which step between a worker and a verdict is missing. Pure functions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum

from pd_tracer_hooks.wire import HooksState, Side
from tracer.api.models import RoomSummary, Worker
from tracer.join.model import Verdict

DOCTOR = "run `python -m pd_tracer_hooks doctor` in that worker's environment"
#: A worker reports every few seconds; one that was silent for longer is not there.
SILENT_AFTER_S = 30.0


class Step(str, Enum):
    """The steps, in the order in which a report takes them."""

    attached = "attached"
    request = "request"
    reported = "reported"
    both_sides = "both sides"
    verdict = "verdict"


@dataclass(frozen=True)
class Outcome:
    """How one step came out. ``hint`` is the way on where it did not."""

    step: Step
    ok: bool
    message: str
    hint: str = ""


def attached(workers: Sequence[Worker]) -> Outcome:
    """Whether live workers of both sides report, and their hooks are in place."""
    live = [worker for worker in workers if worker.age_s <= SILENT_AFTER_S]
    missing = [side.value for side in Side if not any(worker.side is side for worker in live)]
    if missing:
        silent = [worker for worker in workers if worker.side.value in missing]
        said = f"; {silent[0].worker} was last heard {silent[0].age_s:.0f} s ago" if silent else ""
        return Outcome(
            Step.attached,
            False,
            f"no {' and no '.join(missing)} worker reports{said}",
            f"set PD_TRACER_URL and PD_TRACER_DEPLOYMENT there and restart it; {DOCTOR}",
        )
    out = [worker for worker in live if worker.heartbeat and worker.heartbeat.state is HooksState.detached]
    if out:
        faults = out[0].heartbeat.faults if out[0].heartbeat else 0
        return Outcome(
            Step.attached,
            False,
            f"the hooks of {out[0].worker} took themselves out after {faults} faults of their own",
            "its log names them; restart it once they are mended",
        )
    unhooked = [(worker, path) for worker in live if worker.setup for path in worker.setup.missing]
    note = f"; {unhooked[0][0].worker} is not hooked at {unhooked[0][1]}" if unhooked else ""
    sides = {side: sum(worker.side is side for worker in live) for side in Side}
    counted = ", ".join(f"{count} {side.value}" for side, count in sides.items())
    return Outcome(Step.attached, True, f"{counted} workers report{note}")


def reported(room: RoomSummary | None, before: Sequence[Worker], after: Sequence[Worker]) -> Outcome:
    """Whether the request's room arrived, and if not, whether something was refused or lost instead."""
    if room is not None:
        return Outcome(Step.reported, True, f"room {room.room}")
    lost = _lost(before, after)
    if lost:
        worker, reason, count = lost[0]
        return Outcome(
            Step.reported,
            False,
            f"no room: {worker} lost {count} records meanwhile ({reason})",
            "refused records are logged by the worker with the collector's words"
            if reason == "refused"
            else DOCTOR,
        )
    return Outcome(
        Step.reported,
        False,
        "the request was served, and no worker reported a room for it",
        f"PD_TRACER_SAMPLING below 1 leaves rooms out; else {DOCTOR}",
    )


def both_sides(room: RoomSummary) -> Outcome:
    """Whether prefill and decode both reported the room."""
    heard = {Side.prefill: bool(room.request_prefill), Side.decode: bool(room.request_decode)}
    absent = [side.value for side, there in heard.items() if not there]
    if room.verdict in (Verdict.missing_prefill, Verdict.missing_decode) or (absent and not room.settled):
        side = absent[0] if absent else room.verdict.value.removeprefix("missing_")
        return Outcome(
            Step.both_sides,
            False,
            f"{side} did not report its part: {room.summary}",
            f"look at {side}: {DOCTOR}",
        )
    return Outcome(Step.both_sides, True, f"{room.prefill_server} → {room.decode_server}")


def judged(room: RoomSummary) -> Outcome:
    """The verdict: only a match is fine. Any other one that was settled shows at least that tracing works."""
    if not room.settled:
        return Outcome(
            Step.verdict, False, f"not settled yet: {room.summary}", "ask again: pd-tracer room " + room.room
        )
    fine = room.verdict is Verdict.match
    hint = "" if fine else f"see pd-tracer room {room.room}"
    return Outcome(Step.verdict, fine, room.summary, hint)


def _lost(before: Sequence[Worker], after: Sequence[Worker]) -> list[tuple[str, str, int]]:
    earlier: Mapping[tuple[str, str], Mapping[str, int]] = {(w.worker, w.boot): w.drops for w in before}
    found = []
    for worker in after:
        known = earlier.get((worker.worker, worker.boot), {})
        for reason, count in worker.drops.items():
            if count > known.get(reason, 0):
                found.append((worker.worker, reason, count - known.get(reason, 0)))
    return sorted(found, key=lambda item: item[1] != "refused")
