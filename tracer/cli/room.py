"""``pd-tracer room``."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated

import typer

from tracer.cli import exits
from tracer.cli.options import DEFAULT_URL, Deployment, Json, Url
from tracer.cli.output import asking, cells, console, print_json, table, verdict_text, visible

if TYPE_CHECKING:
    from rich.table import Table

    from tracer.api.models import Room
    from tracer.api.models.component import Component
    from tracer.api.models.room import TimelineEntry


def room(
    *,
    room: Annotated[str, typer.Argument(help="The room, as the engine calls it.", metavar="ID")],
    deployment: Deployment = None,
    check: Annotated[bool, typer.Option("--check", help="Exit with 1 unless the verdict is match.")] = False,
    as_json: Json = False,
    url: Url = DEFAULT_URL,
) -> None:
    """Say what happened to one room: in words, by component, and record by record."""
    with asking(url, not_found="`pd-tracer rooms --request ...` finds it by request id") as client:
        reply = client.room(room, deployment)
        if as_json:
            print_json(reply.body)
        else:
            _show(reply.value)
        if check and json.loads(reply.body).get("verdict") != "match":
            raise typer.Exit(exits.FINDING)


def _show(found: Room) -> None:
    out = console()
    out.print(verdict_text(found.verdict.value, found.summary), soft_wrap=True)
    if found.reason and visible(found.reason.rstrip(".")) not in found.summary:
        out.print(*cells(found.reason), soft_wrap=True)
    for name, value in _facts(found):
        out.print(*cells(f"{name:>12}  {value}"), soft_wrap=True)
    if found.components:
        out.print(_components(found.components))
    transfers = _transfers(found)
    if transfers is not None:
        out.print(transfers)
    if found.timeline:
        out.print(_timeline(found))
    if found.timeline_truncated:
        console(stderr=True).print("the timeline is longer; this is its beginning")


def _facts(found: Room) -> list[tuple[str, str]]:
    requests = [text for text in (found.request_prefill, found.request_decode) if text]
    delay = ""
    if found.join_delay_s is not None:
        delay = f"{found.join_delay_s:.3f} s from send to receive, as they arrived"
    facts = [
        ("deployment", found.deployment),
        ("coverage", found.coverage.value if found.coverage is not None else ""),
        ("requests", " / ".join(dict.fromkeys(requests))),
        ("trace", found.trace),
        ("run", found.run),
        ("seen", f"{_clock(found.first_seen)} to {_clock(found.last_seen)}"),
        ("join", delay),
        ("revisions", str(found.revisions) if found.revisions else ""),
    ]
    return [(name, value) for name, value in facts if value]


def _components(parts: list[Component]) -> Table:
    from tracer.explain import where_text  # noqa: PLC0415
    from tracer.join.model import Where  # noqa: PLC0415

    shown = table("component", "verdict", "where", "pages P/D", "layers", "coverage", "why")
    for part in parts:
        where = Where(**part.where.model_dump()) if part.where is not None else None
        pages = [str(side.pages) if side.pages is not None else "-" for side in (part.prefill, part.decode)]
        layers = f"{len(part.layers)}/{part.layers_of}" if part.layers_of else str(len(part.layers))
        shown.add_row(
            *cells(
                part.component,
                verdict_text(part.verdict.value),
                where_text(where),
                "/".join(pages),
                layers,
                part.coverage.value if part.coverage is not None else "",
                "; ".join(text for text in (part.reason, *part.notes) if text),
            )
        )
    return shown


def _transfers(found: Room) -> Table | None:
    """The transfers one by one, where there is more than the one that the sentence speaks of."""
    rows = [(attempt, transfer) for attempt in found.attempts for transfer in attempt.transfers]
    if len(rows) < 2 and len(found.attempts) < 2:
        return None
    from tracer.explain import pair_text  # noqa: PLC0415

    shown = table("attempt", "pair", "key", "verdict", "prefill workers", "decode workers", "why")
    for attempt, transfer in rows:
        shown.add_row(
            *cells(
                str(attempt.number),
                pair_text(attempt.prefill_server, attempt.decode_server),
                transfer.key,
                verdict_text(transfer.verdict.value),
                " ".join(transfer.prefill_workers),
                " ".join(transfer.decode_workers),
                transfer.reason,
            )
        )
    return shown


def _timeline(found: Room) -> Table:
    start = found.timeline[0].received
    shown = table("arrived", "side", "worker", "what", "its clock", "keys", "components")
    for entry in found.timeline:
        stage = f"{entry.stage} #{entry.look}" if entry.look else entry.stage
        shown.add_row(
            *cells(
                f"+{entry.received - start:.3f} s",
                entry.side.value,
                entry.worker,
                stage,
                _clock(entry.at),
                " ".join(entry.keys),
                _said(entry),
            )
        )
    return shown


def _said(entry: TimelineEntry) -> str:
    if entry.kind == "event":
        return " ".join(text for text in (entry.component, entry.reason) if text)
    from tracer.join.intervals import from_runs  # noqa: PLC0415
    from tracer.join.wording import ranges  # noqa: PLC0415

    return "; ".join(
        f"{part.name} {part.coverage.value} pages {ranges(from_runs(part.runs))} of {part.pages},"
        f" {len(part.layers)} layers"
        for part in entry.components
    )


def _clock(seconds: float) -> str:
    from tracer.times import iso  # noqa: PLC0415

    return iso(seconds)
