"""``pd-tracer verify``."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from tracer.cli import exits
from tracer.cli.options import DEFAULT_URL, Deployment, Json, Url
from tracer.cli.output import asking, console


def verify(
    service: Annotated[
        str, typer.Argument(help="The service's own URL: its router, such as http://router:8000.")
    ],
    *,
    deployment: Deployment = None,
    wait_s: Annotated[float, typer.Option(help="Seconds that the room may take.")] = 10.0,
    as_json: Json = False,
    url: Url = DEFAULT_URL,
) -> None:
    """Send one request through a service and show its room with both sides, or name what is missing."""
    from tracer.verify.run import verify as run  # noqa: PLC0415 - brings pydantic and an HTTP client

    shown = console()
    outcomes = []
    with asking(url) as client:
        for outcome in run(client, service, deployment=deployment, wait_s=wait_s):
            outcomes.append(outcome)
            if not as_json:
                shown.print(
                    f"{'ok     ' if outcome.ok else 'MISSING'} {outcome.step.value}: {outcome.message}"
                )
                if outcome.hint:
                    shown.print(f"        {outcome.hint}")
    if as_json:
        rows = [{"step": o.step.value, "ok": o.ok, "message": o.message, "hint": o.hint} for o in outcomes]
        typer.echo(json.dumps({"ok": all(o.ok for o in outcomes), "steps": rows}))
    if not all(outcome.ok for outcome in outcomes):
        raise typer.Exit(exits.FINDING)
