"""``pd-tracer culprits``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from tracer.cli.options import DEFAULT_URL, Deployment, Json, Url
from tracer.cli.output import asking, cells, console, percent, print_json, table

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.table import Table

    from tracer.api.models.culprits import Culprit


def culprits(
    *,
    window: Annotated[str, typer.Option(help="How far to look back: 15m, 1h, 7d.")] = "1h",
    limit: Annotated[int, typer.Option(min=1, max=200, help="Most factors to list.")] = 10,
    deployment: Deployment = None,
    as_json: Json = False,
    url: Url = DEFAULT_URL,
) -> None:
    """Say which worker, pair, node, version or configuration explains most mismatches of a window."""
    with asking(url) as client:
        reply = client.culprits(window, deployment, limit)
        if as_json:
            print_json(reply.body)
            return
        found = reply.value
        out = console()
        out.print(found.summary, soft_wrap=True, markup=False, highlight=False)
        if found.sampled:
            out.print(f"(of the newest {found.compared} rooms of the window)")
        if found.culprits:
            out.print(_ranked("by rooms", found.culprits))
        if found.components:
            out.print(_ranked("by components", found.components))


def _ranked(title: str, culprits: Sequence[Culprit]) -> Table:
    shown = table("factor", "value", "mismatches", "of", "ratio", "95 %", "elsewhere", "", title=title)
    for each in culprits:
        shown.add_row(
            *cells(
                each.kind.replace("_", " "),
                each.value,
                str(each.mismatches),
                str(each.compared),
                percent(each.ratio),
                f"{percent(each.ratio_low)} to {percent(each.ratio_high)}",
                percent(each.other_ratio),
                "stands out" if each.stands_out else "",
            )
        )
    return shown
