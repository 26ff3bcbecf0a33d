"""``pd-tracer rooms``."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Annotated

import typer

from tracer.cli.options import DEFAULT_URL, Deployment, Json, Url
from tracer.cli.output import ago, asking, cells, console, print_json, table, verdict_text, visible

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tracer.api.models import RoomSummary


def rooms(
    *,
    request: Annotated[str | None, typer.Option(help="Request id of either side.")] = None,
    trace: Annotated[str | None, typer.Option(help="Trace id.")] = None,
    deployment: Deployment = None,
    verdict: Annotated[list[str] | None, typer.Option(help="One of these; repeat it.")] = None,
    cause: Annotated[str | None, typer.Option(help="Cause of a mismatch.")] = None,
    component: Annotated[str | None, typer.Option(help="A component that has the room's verdict.")] = None,
    worker: Annotated[str | None, typer.Option(help="A worker that reported on the room.")] = None,
    node: Annotated[str | None, typer.Option(help="A node of which a worker reported.")] = None,
    server: Annotated[str | None, typer.Option(help="A server on either side.")] = None,
    prefill: Annotated[str | None, typer.Option(help="Prefill server of the pair.")] = None,
    decode: Annotated[str | None, typer.Option(help="Decode server of the pair.")] = None,
    pair: Annotated[str | None, typer.Option(help="Both servers: A->B.")] = None,
    run: Annotated[str | None, typer.Option(help="Labels of the run: kv=bf16,graph=on.")] = None,
    since: Annotated[str | None, typer.Option(help="15m, seconds since the epoch, or ISO 8601.")] = None,
    until: Annotated[str | None, typer.Option(help="The same; rooms before it.")] = None,
    limit: Annotated[int, typer.Option(min=1, help="How many rooms.")] = 50,
    cursor: Annotated[str | None, typer.Option(help="Go on where another list ended.")] = None,
    as_json: Json = False,
    url: Url = DEFAULT_URL,
) -> None:
    """List rooms by their latest report, newest first. All filters must hold."""
    filters = {
        "request": request,
        "trace": trace,
        "deployment": deployment,
        "verdict": verdict or None,
        "cause": cause,
        "component": component,
        "worker": worker,
        "node": node,
        "server": server,
        "prefill": prefill,
        "decode": decode,
        "pair": pair,
        "run": run,
        "since": since,
        "until": until,
        "cursor": cursor,
    }
    with asking(url) as client:
        pages = list(client.room_pages(limit, **filters))
        if as_json:
            bodies = [json.loads(page.body) for page in pages]
            listed = [room for body in bodies for room in body["rooms"]]
            print_json(json.dumps({"rooms": listed, "next": bodies[-1]["next"]}).encode())
            return
        _show([room for page in pages for room in page.value.rooms], pages[-1].value.next)


def _show(found: Sequence[RoomSummary], following: str | None) -> None:
    out = console()
    if not found:
        console(stderr=True).print("no room fits")
        return
    now = time.time()
    shown = table("seen", "deployment", "room", "verdict", "what")
    for room in found:
        what = room.summary.removeprefix(f"room {visible(room.room)}: ")
        shown.add_row(
            *cells(
                f"{ago(now - room.last_seen)} ago",
                room.deployment,
                room.room,
                verdict_text(room.verdict.value),
                what,
            )
        )
    out.print(shown)
    if following is not None:
        console(stderr=True).print(f"there are more: --cursor {following}", soft_wrap=True)
