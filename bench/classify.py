"""How well and how fast the join tells causes: thousands of rooms with real digests, some with a fault.

Every room is made by the injector of the tests, observed in its own way (stages, coverage, page digests),
and what is said of it is held against the table of what can be told.
Ends with 1 if an intact room was blamed, a fault was missed that the coverage can see, or a cause is wrong
that can be told.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from support.injected import INTACT, Injected, mixture

from tracer.join.model import RoomVerdict, Verdict


def main() -> int:
    """Make the rooms, judge them, print the counts and rooms per second."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    options.add_argument("--rooms", type=int, default=10_000)
    options.add_argument("--rate", type=float, default=0.05, help="share of rooms with a fault")
    options.add_argument("--seed", type=int, default=1)
    args = options.parse_args()
    began = time.perf_counter()
    rooms = mixture(args.rooms, args.seed, args.rate)
    entries = sum(len(room.room.entries) for room in rooms)
    print(f"{len(rooms)} rooms, {entries} records, made in {time.perf_counter() - began:.1f} s")
    said, rates = _judge(rooms)
    for name, rate in rates.items():
        print(f"{name:>24}: {rate:,.0f} rooms/s")
    return _report(rooms, said)


def _judge(rooms: list[Injected]) -> tuple[list[RoomVerdict], dict[str, float]]:
    said = []
    spent: dict[str, list[float]] = {"intact": [], "with a fault": []}
    for room in rooms:
        began = time.perf_counter()
        said.append(room.judged())
        spent["intact" if room.fault == INTACT else "with a fault"].append(time.perf_counter() - began)
    rates = {name: len(times) / sum(times) for name, times in spent.items() if times}
    rates["all"] = len(rooms) / sum(map(sum, spent.values()))
    return said, rates


def _report(rooms: list[Injected], said: list[RoomVerdict]) -> int:
    made: Counter[str] = Counter()
    right: Counter[str] = Counter()
    blamed = missed = wrong = 0
    for room, verdict in zip(rooms, said, strict=True):
        made[room.fault] += 1
        expected = room.expected
        if (verdict.verdict, verdict.cause) == (expected.verdict, expected.cause):
            right[room.fault] += 1
        elif room.fault == INTACT:
            blamed += 1
        elif verdict.verdict is Verdict.match:
            missed += 1
        else:
            wrong += 1
        for problem in room.problems():
            print(f"  {problem}")
    for fault in sorted(made, key=lambda name: (len(name.split()[0]), name)):
        print(f"{fault:>24}: {right[fault]} of {made[fault]} as the table says")
    print(f"intact rooms blamed: {blamed}, faults missed: {missed}, wrong verdict or cause: {wrong}")
    return 1 if blamed or missed or wrong else 0


if __name__ == "__main__":
    sys.exit(main())
