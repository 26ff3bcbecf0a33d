"""``pd-tracer migrate``."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from tracer.cli import exits
from tracer.cli.output import console, fail, print_json


def migrate(
    *,
    database_url: Annotated[
        str | None,
        typer.Option(help="sqlite:///FILE or postgresql://...  [env: PD_TRACER_DATABASE_URL]"),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print versions as JSON and nothing else.")] = False,
) -> None:
    """Bring the database's schema up to date. Safe to run twice, and from several places at once."""
    from alembic.util import CommandError  # noqa: PLC0415
    from sqlalchemy.engine import make_url  # noqa: PLC0415
    from sqlalchemy.exc import SQLAlchemyError  # noqa: PLC0415

    from tracer.cli.settings import load_settings  # noqa: PLC0415
    from tracer.store.migrate import upgrade_url  # noqa: PLC0415

    url = load_settings(database_url=database_url).database_url
    shown = make_url(url).render_as_string(hide_password=True)
    try:
        with console(stderr=True).status(f"bringing {shown} up to date"):
            before, after = upgrade_url(url)
    except ValueError as error:
        fail(str(error), code=exits.USAGE)
    except SQLAlchemyError as error:
        fail(f"{shown}: {getattr(error, 'orig', None) or error}", code=exits.UNREACHABLE)
    except CommandError as error:
        fail(f"{shown}: {error}", "it was made by a newer pd-tracer", code=exits.UNREACHABLE)
    if as_json:
        print_json(json.dumps({"before": before, "after": after}).encode())
    elif before == after:
        typer.echo(f"{shown} is up to date: version {after}")
    else:
        typer.echo(f"{shown}: from {before or 'empty'} to version {after}")
