import io

import msgspec
import pytest
from rich.console import Console

from pd_tracer_hooks.wire import Coverage
from tracer.demo.expect import Outcome
from tracer.demo.messages import Finished
from tracer.demo.plan import Fault
from tracer.demo.report import Result, show, show_next, summarise
from tracer.join.model import Verdict

GOOD = Outcome(
    index=0,
    room="17",
    fault=None,
    aim=None,
    verdict=Verdict.match,
    summary="room 17: match",
    coverage=Coverage.full,
    found=True,
    located=True,
    problems=[],
)
FLIPPED = msgspec.structs.replace(
    GOOD, index=1, room="18", fault=Fault.bit_flip, verdict=Verdict.mismatch, coverage=None
)
BLAMED = msgspec.structs.replace(
    GOOD,
    index=2,
    room="19",
    verdict=Verdict.mismatch,
    found=False,
    located=False,
    problems=["verdict mismatch"],
)
WORKER = Finished(pid=41, peer_pids=(42,), bytes_moved=5_000_000)


def result(*outcomes: Outcome, worker: Finished = WORKER) -> Result:
    return Result(
        rows=summarise(list(outcomes)),
        outcomes=list(outcomes),
        workers={"prefill-a": worker},
        bytes_moved=worker.bytes_moved,
        seconds=1.5,
        collector="http://127.0.0.1:1",
        deployment="demo",
    )


def printed(of: Result) -> str:
    out = io.StringIO()
    console = Console(file=out, width=120)
    show(of, console)
    show_next(of, console)
    return out.getvalue()


def test_a_row_for_each_kind() -> None:
    intact, flipped = result(FLIPPED, GOOD, BLAMED).rows
    assert (intact.kind, intact.rooms, intact.found, intact.missed, intact.located) == ("intact", 2, 1, 1, 1)
    assert intact.verdicts == {"match": 1, "mismatch": 1}
    assert (flipped.kind, flipped.rooms, flipped.missed) == ("bit_flip", 1, 0)


@pytest.mark.parametrize(
    ("given", "problems"),
    [
        (result(GOOD, FLIPPED), []),
        (result(GOOD, BLAMED), ["room 19 (intact): verdict mismatch"]),
        (
            result(GOOD, msgspec.structs.replace(FLIPPED, located=False, problems=["kv: layers [1]"])),
            ["room 18 (bit_flip): kv: layers [1]"],
        ),
        (
            result(GOOD, worker=msgspec.structs.replace(WORKER, drops={"queue_full": 2})),
            ["prefill-a: reports were lost, so verdicts are missing: {'queue_full': 2}"],
        ),
        (
            result(GOOD, worker=msgspec.structs.replace(WORKER, delivered=False)),
            ["prefill-a: reports were lost, so verdicts are missing: timeout"],
        ),
    ],
)
def test_status_follows_the_problems(given: Result, problems: list[str]) -> None:
    assert given.problems == problems
    assert given.status == (1 if problems else 0)
    text = printed(given)
    assert all(problem in text for problem in problems)
    assert ("Every fault was found" in text) == (not problems)


def test_shows_a_damaged_room_to_look_at() -> None:
    text = printed(result(GOOD, FLIPPED))
    assert "5 MB moved by NIXL" in text
    assert "pd-tracer room 18 --url http://127.0.0.1:1    # bit_flip" in text
    assert "curl -sS 'http://127.0.0.1:1/rooms/18?deployment=demo'" in text
