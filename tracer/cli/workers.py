"""``pd-tracer workers``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from tracer.cli.options import DEFAULT_URL, Deployment, Json, Url
from tracer.cli.output import ago, asking, cells, console, print_json, table

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tracer.api.models import Worker


def workers(
    *,
    deployment: Deployment = None,
    side: Annotated[str | None, typer.Option(help="prefill or decode.")] = None,
    server: Annotated[str | None, typer.Option(help="Only this server.")] = None,
    node: Annotated[str | None, typer.Option(help="Only this node.")] = None,
    seen: Annotated[str | None, typer.Option(help="Reported within: 15m, 1d.")] = None,
    as_json: Json = False,
    url: Url = DEFAULT_URL,
) -> None:
    """List the workers that reported, when last, and what they lost."""
    with asking(url) as client:
        reply = client.workers(deployment=deployment, side=side, server=server, node=node, seen=seen)
        if as_json:
            print_json(reply.body)
        else:
            _show(reply.value.workers)


def _show(found: Sequence[Worker]) -> None:
    if not found:
        console(stderr=True).print("no worker fits")
        return
    shown = table(
        "deployment",
        "side",
        "server",
        "worker",
        "node",
        "last report",
        "hooks",
        "lost",
        "components",
        "engine",
    )
    for worker in found:
        shown.add_row(
            *cells(
                worker.deployment,
                worker.side.value,
                worker.server,
                worker.worker,
                worker.node,
                f"{ago(worker.age_s)} ago",
                worker.heartbeat.state.value if worker.heartbeat is not None else "-",
                ", ".join(f"{reason} {count}" for reason, count in worker.drops.items() if count) or "-",
                _held(worker),
                f"{worker.engine} {worker.engine_version}".strip(),
            )
        )
    console().print(shown)


def _held(worker: Worker) -> str:
    if worker.manifest is None:
        return "no manifest"
    return ", ".join(
        f"{part.name} ({part.layers} layers{'' if part.moved else ', not moved'})" for part in worker.manifest
    )
