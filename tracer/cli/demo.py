"""``pd-tracer demo``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from tracer.cli import exits
from tracer.cli.output import fail


def demo(
    *,
    rooms: Annotated[int | None, typer.Option(min=1, help="How many rooms move.")] = None,
    concurrency: Annotated[int | None, typer.Option(min=1, help="Rooms in flight at a time.")] = None,
    fault: Annotated[
        list[str] | None,
        typer.Option(help="What to do to rooms, by name or cause; repeat it. Every kind if not given."),
    ] = None,
    intact: Annotated[bool, typer.Option("--intact", help="Inject nothing.")] = False,
    rate: Annotated[float | None, typer.Option(min=0, max=1, help="Share of rooms with a fault.")] = None,
    max_tokens: Annotated[int | None, typer.Option(min=1, help="Longest prompt.")] = None,
    seed: Annotated[int | None, typer.Option(help="Decides contents, lengths and faults.")] = None,
    layers: Annotated[int | None, typer.Option(min=1, max=64, help="Layers of the model.")] = None,
    stages: Annotated[
        str, typer.Option(help="What is observed: all, or minimal (send and receive alone).")
    ] = "all",
    engine: Annotated[str, typer.Option(help="What moves the bytes: nixl or mooncake.")] = "nixl",
    wire: Annotated[
        bool, typer.Option("--wire", help="Over a wire between two network namespaces; needs root.")
    ] = False,
    delay_ms: Annotated[float, typer.Option(min=0, help="How long the wire holds each frame.")] = 0.0,
    flip_mib: Annotated[float, typer.Option(min=0, help="MiB between two flipped bits; 0: none.")] = 8.0,
    port: Annotated[int, typer.Option(min=0, max=65535, help="The collector's; 0 takes a free one.")] = 0,
    database: Annotated[Path | None, typer.Option(help="Keep the reports in this file.")] = None,
    keep: Annotated[bool, typer.Option("--keep", help="Leave the collector running until Ctrl-C.")] = False,
    timeout: Annotated[float | None, typer.Option(min=1, help="Seconds until the demo gives up.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON and nothing else.")] = False,
) -> None:
    """Move real KV pages between two processes, damage some, show what was found.

    Exits with 1 if a fault was missed or an intact room blamed.
    """
    from tracer.demo.names import faults_named, names  # noqa: PLC0415
    from tracer.demo.plan import Fault, Mix, WireTraits  # noqa: PLC0415
    from tracer.demo.run import DemoOptions, run_demo  # noqa: PLC0415

    named: list[Fault] = []
    for name in fault or []:
        found = faults_named(name)
        if not found:
            fail(f"--fault {name}: no such fault", f"one of {', '.join(names())}", code=exits.USAGE)
        named += found
    if engine not in ("nixl", "mooncake"):
        fail(f"--engine {engine}: use nixl or mooncake", code=exits.USAGE)
    if stages not in ("all", "minimal"):
        fail(f"--stages {stages}: use all or minimal", code=exits.USAGE)
    if intact and fault:
        fail("--intact contradicts --fault", code=exits.USAGE)
    faults = tuple(named) if fault else None
    chosen = {
        "rooms": rooms,
        "concurrency": concurrency,
        # The wire does harm enough, unless more is asked for.
        "faults": () if intact or (wire and not fault) else faults,
        "wire": WireTraits(delay_ms=delay_ms, flip_mib=flip_mib) if wire else None,
        "rate": rate,
        "max_tokens": max_tokens,
        "seed": seed,
        "stages": stages,
        "engine": engine,
    }
    other = {"layers": layers, "timeout_s": timeout}
    options = DemoOptions(
        mix=Mix(**_given(chosen)), port=port, database=database, keep=keep, as_json=as_json, **_given(other)
    )
    raise typer.Exit(run_demo(options))


def _given(options: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in options.items() if value is not None}
