"""``pd-tracer explain``."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tracer.cli import exits
from tracer.cli.output import cells, console, fail, print_json, table, verdict_text, visible

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tracer.offline import Losses
    from tracer.rejudge import JudgedRoom


def explain(
    *,
    files: Annotated[
        list[Path],
        typer.Argument(help="Spools, or folders of them: one report a line, as JSON.", metavar="FILE..."),
    ],
    room: Annotated[str | None, typer.Option("--room", help="Show this room as `room` does.")] = None,
    deployment: Annotated[
        str | None, typer.Option("--deployment", "-d", help="Only this deployment.")
    ] = None,
    limit: Annotated[int, typer.Option(min=1, help="Most rooms to list, findings first.")] = 100,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON and nothing else.")] = False,
) -> None:
    """Judge rooms from reports in files, with no collector. Files of both sides are read together.

    Exits with 1 if there is a finding.
    """
    from tracer.offline import Losses, read_spool  # noqa: PLC0415
    from tracer.rejudge import is_finding, judge_reports  # noqa: PLC0415

    losses = Losses()
    try:
        judged = judge_reports(read_spool(files, losses))
    except OSError as error:
        fail(f"{error.filename}: {error.strerror}", "name spool files, or folders of them", code=exits.USAGE)
    if deployment is not None:
        judged = [one for one in judged if one.row.deployment == deployment]
    _say(losses)
    if not judged:
        fail("no room in these files", "each line is to be one report as JSON", code=exits.USAGE)
    if room is not None:
        chosen = _choose(judged, room)
        _show_room(chosen, judged, as_json=as_json)
        shown = [chosen]
    else:
        (_print_json if as_json else _show_all)(judged, limit, losses)
        shown = judged
    if any(is_finding(one.row.said) for one in shown):
        raise typer.Exit(exits.FINDING)


def _choose(judged: Sequence[JudgedRoom], room: str) -> JudgedRoom:
    found = [one for one in judged if one.row.room == room]
    if not found:
        fail(f"no room {room!r} in these files", "without --room all are listed", code=exits.FINDING)
    if len(found) > 1:
        names = ", ".join(sorted(one.row.deployment for one in found))
        fail(
            f"{len(found)} deployments have a room {room!r}",
            f"say --deployment, one of: {names}",
            code=exits.USAGE,
        )
    return found[0]


def _show_room(chosen: JudgedRoom, judged: Sequence[JudgedRoom], *, as_json: bool) -> None:
    from tracer.api.views import room_detail  # noqa: PLC0415
    from tracer.cli.room_page import show_room  # noqa: PLC0415
    from tracer.rejudge import neighbours_of  # noqa: PLC0415

    near = neighbours_of(chosen.row, [one.row for one in judged])
    page = room_detail(chosen.row, chosen.timeline, near)
    if as_json:
        print_json(page.model_dump_json().encode())
    else:
        show_room(page)


def _print_json(judged: Sequence[JudgedRoom], limit: int, losses: Losses) -> None:
    from tracer.api.views import room_summary  # noqa: PLC0415
    from tracer.fleet import count_standings, statement  # noqa: PLC0415

    body = {
        "summary": statement(count_standings(one.row.said for one in judged)),
        "counts": _counts(judged),
        "rooms": [room_summary(one.row).model_dump(mode="json") for one in judged[:limit]],
        "lines_lost": losses.lines,
        "records_refused": losses.records,
    }
    print_json(json.dumps(body).encode())


def _show_all(judged: Sequence[JudgedRoom], limit: int, losses: Losses) -> None:
    from tracer.api.views import room_summary  # noqa: PLC0415
    from tracer.fleet import count_standings, statement  # noqa: PLC0415

    out = console()
    counts = ", ".join(f"{count} {name}" for name, count in _counts(judged).items())
    out.print(f"{len(judged)} rooms: {counts}", soft_wrap=True)
    out.print(statement(count_standings(one.row.said for one in judged)), soft_wrap=True)
    shown = table("deployment", "room", "verdict", "what")
    for one in judged[:limit]:
        summary = room_summary(one.row)
        what = summary.summary.removeprefix(f"room {visible(summary.room)}: ")
        verdict = verdict_text(summary.verdict.value)
        shown.add_row(*cells(summary.deployment, summary.room, verdict, what))
    out.print(shown)
    if len(judged) > limit:
        console(stderr=True).print(f"and {len(judged) - limit} more: --limit {len(judged)}")


def _counts(judged: Sequence[JudgedRoom]) -> dict[str, int]:
    """Rooms by verdict, in the order of the list."""
    return dict(Counter(one.row.verdict for one in judged))


def _say(losses: Losses) -> None:
    if not losses.lines and not losses.records:
        return
    error = console(stderr=True)
    error.print(
        f"left out: {losses.lines} lines that hold no report, {losses.records} records that make no sense"
    )
    for what in losses.named:
        error.print(*cells(f"  {what}"), soft_wrap=True)
    more = losses.lines + losses.records - len(losses.named)
    if more > 0:
        error.print(f"  and {more} more")
