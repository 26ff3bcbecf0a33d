"""``pd-tracer room``."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from tracer.cli import exits
from tracer.cli.options import DEFAULT_URL, Deployment, Json, Url
from tracer.cli.output import asking, print_json


def room(
    *,
    room: Annotated[str, typer.Argument(help="The room, as the engine calls it.", metavar="ID")],
    deployment: Deployment = None,
    check: Annotated[bool, typer.Option("--check", help="Exit with 1 unless the verdict is match.")] = False,
    as_json: Json = False,
    url: Url = DEFAULT_URL,
) -> None:
    """Say what happened to one room: in words, by component, and record by record."""
    from tracer.cli.room_page import show_room  # noqa: PLC0415

    with asking(url, not_found="`pd-tracer rooms --request ...` finds it by request id") as client:
        reply = client.room(room, deployment)
        if as_json:
            print_json(reply.body)
        else:
            show_room(reply.value)
        if check and json.loads(reply.body).get("verdict") != "match":
            raise typer.Exit(exits.FINDING)
