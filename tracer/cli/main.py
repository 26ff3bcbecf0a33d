"""``pd-tracer``: the commands, each from a module of its own."""

from __future__ import annotations

from typing import Annotated

import typer

from tracer import __version__
from tracer.cli import culprits, demo, digest, explain, migrate, room, rooms, serve, summary, verify, workers
from tracer.cli.exits import EPILOG

app = typer.Typer(
    name="pd-tracer",
    help="Were the KV pages that prefill sent the ones that decode received?",
    epilog=EPILOG,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"pd-tracer {__version__}")
        raise typer.Exit


@app.callback()
def main(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Were the KV pages that prefill sent the ones that decode received?"""


app.command("serve")(serve.serve)
app.command("migrate")(migrate.migrate)
app.command("demo")(demo.demo)
app.command("rooms")(rooms.rooms)
app.command("room")(room.room)
app.command("summary")(summary.summary)
app.command("workers")(workers.workers)
app.command("verify")(verify.verify)
app.command("culprits")(culprits.culprits)
app.command("explain")(explain.explain)
app.command("digest")(digest.digest)


if __name__ == "__main__":
    app()
