"""Options that several commands have."""

from __future__ import annotations

from typing import Annotated

import typer

# What tracer.client has as DEFAULT_URL, without importing an HTTP client to show --help.
DEFAULT_URL = "http://127.0.0.1:8400"

Url = Annotated[
    str, typer.Option("--url", envvar="PD_TRACER_URL", help="Where the collector is.", show_envvar=True)
]
Json = Annotated[bool, typer.Option("--json", help="Print the collector's JSON and nothing else.")]
Deployment = Annotated[str | None, typer.Option("--deployment", "-d", help="Only this deployment.")]
