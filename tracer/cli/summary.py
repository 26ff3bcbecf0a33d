"""``pd-tracer summary``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from tracer.cli.options import DEFAULT_URL, Deployment, Json, Url
from tracer.cli.output import ago, asking, cells, console, percent, print_json, table

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.table import Table

    from tracer.api.models import Summary
    from tracer.api.models.summary import Tally
    from tracer.client import Client


def summary(
    *,
    window: Annotated[str | None, typer.Option(help="How far to look back: 15m, 1h, 7d.")] = None,
    deployment: Deployment = None,
    as_json: Json = False,
    url: Url = DEFAULT_URL,
) -> None:
    """Count what was settled in a window: in all, by component, by pair."""
    with asking(url) as client:
        reply = client.summary(window, deployment)
        if as_json:
            print_json(reply.body)
        else:
            _show(reply.value)
            _show_exonerated(client, found=reply.value, deployment=deployment)


def _show(found: Summary) -> None:
    out = console()
    waiting = found.pending
    oldest = f", the oldest for {ago(waiting.oldest_age_s)}" if waiting.oldest_age_s is not None else ""
    total = sum(found.rooms.counts.values())
    out.print(
        f"last {ago(found.window_s)}: {total} rooms settled, {found.rooms.compared} compared, "
        f"{percent(found.rooms.match_ratio)} match; {waiting.rooms} pending{oldest}",
        soft_wrap=True,
    )
    if total:
        out.print(_tallies("rooms by pair", _pairs(found)))
    components = [((tally.component,), tally) for tally in found.components]
    if components:
        out.print(_tallies("components", components, "component"))


def _show_exonerated(client: Client, *, found: Summary, deployment: str | None) -> None:
    """The fleet's sentence, and the rooms left unexplained. A collector of an older release has none."""
    from tracer.client import NotFoundError  # noqa: PLC0415

    try:
        fleet = client.exonerated(f"{found.window_s:g}s", deployment).value
    except NotFoundError:
        return
    if not fleet.read:
        return
    out = console()
    sample = f" (of the newest {fleet.read} rooms)" if fleet.sampled else ""
    out.print(*cells(fleet.summary + sample), soft_wrap=True)
    for room in fleet.rooms:
        out.print(*cells(f"  unexplained: {room.summary.removeprefix('room ')}"), soft_wrap=True)
    more = fleet.unexplained - len(fleet.rooms)
    if more > 0:
        out.print(f"  and {more} more: pd-tracer rooms --cause unexplained", soft_wrap=True)


def _pairs(found: Summary) -> list[tuple[tuple[str, ...], Tally]]:
    from tracer.explain import pair_text  # noqa: PLC0415

    return [((pair.deployment, pair_text(pair.prefill, pair.decode)), pair.rooms) for pair in found.pairs]


def _tallies(title: str, rows: Sequence[tuple[tuple[str, ...], Tally]], *names: str) -> Table:
    """A table with a column for every verdict that occurs, so that none hides in a sum."""
    seen = {verdict for _, tally in rows for verdict in tally.counts}
    ordered = sorted(
        seen, key=lambda verdict: (verdict.value != "match", verdict.value != "mismatch", verdict)
    )
    shown = table(
        *(names or ("deployment", "pair")),
        *(verdict.value for verdict in ordered),
        "match ratio",
        title=title,
    )
    for labels, tally in rows:
        counts = [str(tally.counts.get(verdict, 0)) for verdict in ordered]
        shown.add_row(*cells(*labels, *counts, percent(tally.match_ratio)))
    return shown
