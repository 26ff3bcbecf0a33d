"""What was injected against what was found: the demo's result, as a table and as JSON."""

from __future__ import annotations

from collections import Counter

from msgspec import Struct
from rich import box
from rich.console import Console
from rich.table import Table

from pd_tracer_hooks.wire import Coverage
from tracer.demo.expect import Outcome
from tracer.demo.messages import Finished
from tracer.demo.plan import Engine, Fault
from tracer.join.model import Verdict

INTACT = "intact"
_ENGINES = {"nixl": "NIXL", "mooncake": "Mooncake"}


class Row(Struct, frozen=True, kw_only=True):
    """All rooms of one kind. ``found``: right verdict; ``located``: right in every detail."""

    kind: str
    rooms: int
    found: int
    located: int
    verdicts: dict[str, int]
    #: Causes that the collector names, and how many are ``told``, ``untold`` and ``wrong``.
    causes: dict[str, int] = {}
    told: dict[str, int] = {}

    @property
    def missed(self) -> int:
        """Rooms with another verdict than they should have."""
        return self.rooms - self.found


class Result(Struct, frozen=True, kw_only=True):
    """A whole run of the demo."""

    rows: list[Row]
    outcomes: list[Outcome]
    workers: dict[str, Finished]
    #: Bytes that the transfer engine moved between the processes: NIXL's own count, or of Mooncake's
    #: successful writes.
    bytes_moved: int
    seconds: float
    collector: str
    deployment: str
    engine: Engine = "nixl"

    @property
    def problems(self) -> list[str]:
        """Everything that is not as it must be; empty when the demo has succeeded."""
        found = [
            f"room {outcome.room} ({_kind(outcome.fault)}): {problem}"
            for outcome in self.outcomes
            for problem in outcome.problems
        ]
        for name, worker in self.workers.items():
            if not worker.delivered or worker.drops:
                found.append(
                    f"{name}: reports were lost, so verdicts are missing: {worker.drops or 'timeout'}"
                )
        return found

    @property
    def status(self) -> int:
        """The demo's exit status: 0, or 1 if a fault was missed or an intact room blamed."""
        return 1 if self.problems else 0


def summarise(outcomes: list[Outcome]) -> list[Row]:
    """A row for each kind, intact rooms first, then the faults in the order of their definition."""
    order = [INTACT, *(fault.value for fault in Fault)]
    kinds = {_kind(outcome.fault) for outcome in outcomes}
    return [_row(kind, [o for o in outcomes if _kind(o.fault) == kind]) for kind in order if kind in kinds]


def _row(kind: str, outcomes: list[Outcome]) -> Row:
    verdicts = Counter("unknown" if o.verdict is None else o.verdict.value for o in outcomes)
    return Row(
        kind=kind,
        rooms=len(outcomes),
        found=sum(o.found for o in outcomes),
        located=sum(o.located for o in outcomes),
        verdicts=dict(verdicts.most_common()),
        causes=dict(Counter(o.cause for o in outcomes if o.cause).most_common()),
        told=dict(Counter(o.told for o in outcomes if o.told)),
    )


def _kind(fault: Fault | None) -> str:
    return INTACT if fault is None else fault.value


def show(result: Result, console: Console) -> None:
    """Print the table, an example of each fault in the collector's words, and the totals."""
    table = Table(
        title="What was done to rooms, and what was found",
        caption="found: the verdict is right. located: so are components, layers and pages.\n"
        "told: so is the cause, as far as the evidence allows.",
        title_justify="left",
        caption_justify="left",
        box=box.SIMPLE_HEAD,
    )
    table.add_column("done to the room", no_wrap=True)
    for heading in ("rooms", "found", "missed", "located"):
        table.add_column(heading, justify="right")
    table.add_column("told", justify="right")
    table.add_column("verdict: cause")
    for row in result.rows:
        table.add_row(
            row.kind,
            str(row.rooms),
            str(row.found),
            _marked(row.missed, bad=row.missed > 0),
            _marked(row.located, bad=row.located < row.rooms),
            str(row.told.get("told", 0)) if row.told else "",
            _said(row.verdicts) + (f": {_said(row.causes)}" if row.causes else ""),
        )
    console.print(table)
    console.print("For example:")
    for row in result.rows:
        example = next(o for o in result.outcomes if _kind(o.fault) == row.kind)
        console.print(f"  {row.kind}: {example.summary or 'unknown'}", markup=False, highlight=False)
    console.print()
    console.print(_totals(result), highlight=False)
    if result.problems:
        console.print("[red]Not as it must be:[/red]")
        for problem in result.problems:
            console.print(f"  {problem}", markup=False, highlight=False)
    else:
        console.print("[green]Every fault was found, and no intact room was blamed.[/green]")


def _said(by_name: dict[str, int]) -> str:
    if len(by_name) == 1:
        return next(iter(by_name))
    return ", ".join(f"{name} {count}" for name, count in by_name.items())


def _marked(count: int, *, bad: bool) -> str:
    return f"[red]{count}[/red]" if bad else str(count)


def _totals(result: Result) -> str:
    matches = [o for o in result.outcomes if o.verdict is Verdict.match]
    full = sum(o.coverage is Coverage.full for o in matches)
    pids = ", ".join(f"{name} {worker.pid}" for name, worker in result.workers.items())
    moved = f"{result.bytes_moved / 1e6:.0f} MB moved by {_ENGINES[result.engine]} between processes"
    return (
        f"{len(result.outcomes)} transfers, {moved}, in {result.seconds:.1f} s.\n"
        f"{full} of {len(matches)} matches at full coverage: every page of every layer was read.\n"
        f"Processes: {pids}."
    )


def show_next(result: Result, console: Console) -> None:
    """How to look at a bad room while the collector still runs."""
    bad = next((o for o in result.outcomes if o.fault is Fault.bit_flip), None)
    bad = bad or next((o for o in result.outcomes if o.fault is not None), result.outcomes[0])
    where = f"?deployment={result.deployment}"
    lines = [
        f"pd-tracer room {bad.room} --url {result.collector}    # {_kind(bad.fault)}",
        f"curl -sS '{result.collector}/rooms/{bad.room}{where}'",
        f"curl -sS '{result.collector}/rooms{where}&verdict=mismatch'",
        f"curl -sS '{result.collector}/summary{where}'",
        f"curl -sS {result.collector}/metrics",
        f"{result.collector}/docs",
    ]
    console.print("Look further:")
    for line in lines:
        console.print(f"  {line}", markup=False, highlight=False, soft_wrap=True)
