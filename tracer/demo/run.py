"""``pd-tracer demo``: start the processes, move the rooms, ask the collector, show what was found."""

from __future__ import annotations

import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import msgspec
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from tracer.demo.children import ChildError, Children, messages
from tracer.demo.collector import DEADLINE_S, Collector, RoomAnswer
from tracer.demo.engine import what_is_missing
from tracer.demo.expect import judge
from tracer.demo.geometry import Geometry
from tracer.demo.messages import End, Idle
from tracer.demo.netns import why_not
from tracer.demo.plan import Engine, Fault, Mix, PlannedRoom, Stages, make_plan
from tracer.demo.report import Result, show, show_next, summarise
from tracer.demo.told import told_for_certain
from tracer.demo.workers import DEPLOYMENT, Traffic, Wire, start_workers
from tracer.join.model import Cause

#: Exit statuses beside the result's own: the demo could not be run; Ctrl-C.
BROKEN, INTERRUPTED = 2, 130

#: Seconds in which the collector can ask the workers for page digests.
DETAILS_S = 8.0


@dataclass(frozen=True, kw_only=True)
class DemoOptions:
    """What ``pd-tracer demo`` is asked for."""

    mix: Mix = field(default_factory=Mix)
    layers: int = 6
    #: The collector's port; 0 takes a free one.
    port: int = 0
    #: File that keeps the collector's reports; None: a temporary one.
    database: Path | None = None
    as_json: bool = False
    #: Leave the collector running until Ctrl-C.
    keep: bool = False
    #: Seconds after which the demo gives up.
    timeout_s: float = 150.0


def run_demo(options: DemoOptions) -> int:
    """Run the demo and print its result. Returns the exit status; ends every process it started."""
    # Progress and explanations go to stderr when stdout carries JSON.
    console = Console(stderr=options.as_json)
    missing = what_is_missing(options.mix.engine) or (why_not() if options.mix.wire is not None else "")
    if missing:
        console.print(missing, soft_wrap=True)
        return BROKEN
    try:
        geometry = _geometry(options)
        rooms = make_plan(options.mix, geometry)
    except ValueError as error:
        console.print(str(error), markup=False, highlight=False)
        return BROKEN
    directory = Path(tempfile.mkdtemp(prefix="pd-tracer-demo-"))
    status = BROKEN
    # A termination ends the children too, like Ctrl-C.
    previous = signal.signal(signal.SIGTERM, _interrupt)
    try:
        status = _run(options, geometry, rooms, directory, console)
    except (ChildError, TimeoutError) as error:
        console.print(f"The demo could not be run: {error}", style="red", markup=False, highlight=False)
    except KeyboardInterrupt:
        console.print("Interrupted.")
        status = INTERRUPTED
    finally:
        signal.signal(signal.SIGTERM, previous)
        if status not in (0, INTERRUPTED):
            console.print(f"Logs of the processes are in {directory}", highlight=False, soft_wrap=True)
        else:
            shutil.rmtree(directory, ignore_errors=True)
    return status


def _interrupt(*_: object) -> None:
    raise KeyboardInterrupt


def _geometry(options: DemoOptions) -> Geometry:
    geometry = Geometry(layers=options.layers)
    if not 1 <= options.layers <= 64:
        raise ValueError(f"layers={options.layers}: 1 to 64")
    return geometry


def _run(
    options: DemoOptions, geometry: Geometry, rooms: list[PlannedRoom], directory: Path, console: Console
) -> int:
    begun = time.monotonic()
    deadline = begun + options.timeout_s
    database = options.database or directory / "demo.db"
    with (
        Children(directory) as children,
        Collector(children, database.absolute(), options.port) as collector,
    ):
        wire = None
        if options.mix.wire is not None:
            wire = Wire(options.mix, rooms, children, collector.port, log=directory / "flips.jsonl")
        workers = start_workers(options.mix, geometry, rooms, children, collector.url, wire=wire)
        traffic = Traffic()
        if wire is not None:
            traffic.prefill_host = wire.hosts["prefill"]
        with _progress(console) as progress:
            closing = sum(room.fault is not Fault.never_sent for room in rooms)
            bar = progress.add_task("collector and workers start", total=closing)
            collector.wait_ready(deadline)
            for child, message in messages(workers, deadline, until=Idle):
                traffic.hear(child, message, workers)
                if traffic.ports:
                    progress.update(bar, completed=len(traffic.closed), description="rooms move")
            for flip in wire.flips() if wire is not None else ():
                traffic.aims[flip.index] = flip.aim
            progress.update(bar, description="the collector asks for details")
            _let_ask(collector, rooms, traffic, geometry, options.mix.stages)
            for worker in workers:
                worker.tell(End())
            for child, message in messages(workers, deadline):
                traffic.hear(child, message, workers)
            progress.update(bar, description="the collector settles")
            answers = _ask(collector, rooms, deadline)
        seconds = time.monotonic() - begun
        result = conclude(
            rooms,
            traffic,
            answers,
            geometry,
            collector=collector.url,
            seconds=seconds,
            stages=options.mix.stages,
            engine=options.mix.engine,
        )
        _print(result, options, console)
        if options.keep:
            _keep(collector, result, console)
        else:
            console.print("With --keep the collector stays, and can be asked.", highlight=False)
    return result.status


def _let_ask(
    collector: Collector, rooms: list[PlannedRoom], traffic: Traffic, geometry: Geometry, stages: Stages
) -> None:
    """Leave the workers there until the collector has told the causes, or has had time to ask for details."""
    waiting: dict[str, frozenset[Cause | None]] = {}
    for room in rooms:
        hit = traffic.aims.get(room.index)
        causes = frozenset() if hit is None else told_for_certain(room, hit, geometry, stages)
        if causes and not causes & {None, Cause.unexplained}:
            waiting[room.room] = causes
    deadline = time.monotonic() + DETAILS_S
    while waiting and time.monotonic() < deadline:
        for name, causes in list(waiting.items()):
            answer = collector.room(name, DEPLOYMENT)
            if answer is not None and answer.cause in causes:
                del waiting[name]
        if waiting:
            time.sleep(0.25)  # workers hear of a wish with their next report


def _ask(collector: Collector, rooms: list[PlannedRoom], deadline: float) -> dict[str, RoomAnswer]:
    """Ask for every room until its verdict is settled, or its deadlines have passed long ago.

    All reports are in by now, so a settled verdict is the last.
    """
    deadline = min(deadline, time.monotonic() + 2 * DEADLINE_S + 5)
    answers: dict[str, RoomAnswer] = {}
    waiting = {room.room for room in rooms}
    while waiting:
        for room in sorted(waiting):
            answer = collector.room(room, DEPLOYMENT)
            if answer is not None:
                answers[room] = answer
        waiting = {room for room in waiting if room not in answers or not answers[room].settled}
        if time.monotonic() > deadline:
            break
        if waiting:
            time.sleep(0.25)  # a side is called missing by the collector's own clock
    return answers


def conclude(
    rooms: list[PlannedRoom],
    traffic: Traffic,
    answers: Mapping[str, RoomAnswer],
    geometry: Geometry,
    *,
    collector: str,
    seconds: float,
    stages: Stages = "all",
    engine: Engine = "nixl",
) -> Result:
    """Hold what was planned and done against what was answered. Pure."""
    names = {room.index: room.room for room in rooms}
    outcomes = [
        judge(
            room,
            traffic.aims.get(room.index),
            answers.get(room.room),
            geometry,
            stages,
            donor=names.get(room.donor, ""),
        )
        for room in rooms
    ]
    return Result(
        rows=summarise(outcomes),
        outcomes=outcomes,
        workers=traffic.finished,
        bytes_moved=sum(worker.bytes_moved for worker in traffic.finished.values()),
        seconds=seconds,
        collector=collector,
        engine=engine,
        deployment=DEPLOYMENT,
    )


def _progress(console: Console) -> Progress:
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        console=console,
        transient=True,
    )


def _print(result: Result, options: DemoOptions, console: Console) -> None:
    show(result, console)
    if options.as_json:
        document = {"ok": not result.problems, "problems": result.problems, **msgspec.to_builtins(result)}
        sys.stdout.write(msgspec.json.encode(document).decode() + "\n")


def _keep(collector: Collector, result: Result, console: Console) -> None:
    """Leave the collector running until Ctrl-C. Raises :class:`ChildError` if it ends by itself."""
    try:
        show_next(result, console)
        console.print(f"The collector stays at {collector.url} until Ctrl-C.", highlight=False)
        collector.child.process.wait()
    except KeyboardInterrupt:
        return
    raise collector.child.failure("ended")
