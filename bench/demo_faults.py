"""Many rooms, few faults: is every fault found, nobody blamed, and the cause told where it can be?

    python bench/demo_faults.py --rooms 10000 --rate 0.05 --engine nixl

Runs ``pd-tracer demo`` again and again with other seeds, on bytes that really move, and adds up what came of
it. The verdicts are held against the injector's own log, the causes against a table written
before. Exits with 1 if a fault was missed, a room blamed, or a cause named that is not right. 20 to 80 rooms
a second on two cores.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from collections import Counter
from typing import Any


def batch(options: argparse.Namespace, rooms: int, seed: int) -> dict[str, Any]:
    """One run of the demo."""
    command = [sys.executable, "-m", "tracer.cli.main", "demo", "--json"]
    chosen = {
        "rooms": rooms,
        "seed": seed,
        "rate": options.rate,
        "engine": options.engine,
        "stages": options.stages,
        "layers": options.layers,
        "max-tokens": options.max_tokens,
        "concurrency": options.concurrency,
        "timeout": options.timeout,
    }
    for name, value in chosen.items():
        command += [f"--{name}", str(value)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode not in (0, 1):
        raise SystemExit(f"{' '.join(command)}\n{done.stdout}{done.stderr}")
    document: dict[str, Any] = json.loads(done.stdout)
    return document


def main() -> int:
    """Run, add up, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--rooms", type=int, default=2000)
    parser.add_argument("--batch", type=int, default=1000, help="rooms in one run of the demo")
    parser.add_argument("--rate", type=float, default=0.05)
    parser.add_argument("--engine", default="nixl")
    parser.add_argument("--stages", default="all")
    parser.add_argument("--layers", type=int, default=4)
    parser.add_argument("--max-tokens", type=int, default=1500)
    parser.add_argument("--concurrency", type=int, default=12)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--timeout", type=float, default=300)
    options = parser.parse_args()

    columns = ("rooms", "found", "located", "told", "untold", "wrong")
    kinds: dict[str, Counter[str]] = {}
    problems: list[str] = []
    moved = 0
    begun = time.monotonic()
    left, seed = options.rooms, options.seed
    while left > 0:
        size = min(options.batch, left)
        document = batch(options, size, seed)
        for row in document["rows"]:
            counts = kinds.setdefault(row["kind"], Counter())
            counts.update({name: row[name] for name in ("rooms", "found", "located")})
            counts.update(row["told"])
        problems += [f"seed {seed}: {problem}" for problem in document["problems"]]
        moved += document["bytes_moved"]
        left, seed = left - size, seed + 1
        print(
            f"  {options.rooms - left} rooms, {time.monotonic() - begun:.0f} s", file=sys.stderr, flush=True
        )
    seconds = time.monotonic() - begun

    print(f"{'done to the room':24}" + "".join(f"{name:>9}" for name in columns))
    for kind, counts in kinds.items():
        print(f"{kind:24}" + "".join(f"{counts[name]:>9}" for name in columns))
    total = Counter[str]()
    for counts in kinds.values():
        total.update(counts)
    intact = kinds.get("intact", Counter())
    print(
        f"{total['rooms']} transfers through {options.engine}, stages {options.stages}, "
        f"{moved / 1e9:.1f} GB, {seconds:.0f} s ({total['rooms'] / seconds:.0f} a second)\n"
        f"intact rooms blamed: {intact['rooms'] - intact['found']} of {intact['rooms']}\n"
        f"faults missed: {total['rooms'] - total['found'] - intact['rooms'] + intact['found']} "
        f"of {total['rooms'] - intact['rooms']}\n"
        f"causes told {total['told']}, not told {total['untold']}, wrong {total['wrong']}"
    )
    for problem in problems:
        print(f"  {problem}")
    return 1 if problems else 0


if __name__ == "__main__":
    raise SystemExit(main())
