"""What goes to the terminal: tables on stdout, what went wrong in one line on stderr."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, NoReturn

import typer

from tracer.cli import exits

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    from tracer.client import Client

#: Columns of a table that goes into a pipe or a file.
_PIPE_WIDTH = 200

_STYLES = {"match": "green", "mismatch": "bold red", "pending": "dim", "nothing_transferred": "green"}


def fail(error: str, hint: str = "", *, code: int) -> NoReturn:
    """Say in one line on stderr what went wrong and the way out, and exit."""
    line = f"pd-tracer: {error}" + (f": {hint}" if hint else "")
    typer.echo(visible(" ".join(line.split())), err=True)
    raise typer.Exit(code)


def visible(text: str) -> str:
    """Text from workers as a terminal may show it."""
    from tracer.explain import visible as escape  # noqa: PLC0415

    return escape(text)


@contextmanager
def asking(url: str, *, not_found: str = "") -> Iterator[Client]:
    """A client of the collector at ``url``; what it raises becomes one line and an exit status.

    ``not_found``: what to do when the collector does not have it, in the words of the command line.
    """
    from tracer.client import Client, ClientError, NotFoundError, RefusedError  # noqa: PLC0415

    try:
        with Client(url) as client:
            yield client
    except NotFoundError as error:
        fail(error.error, not_found or error.hint, code=exits.FINDING)
    except RefusedError as error:
        fail(error.error, error.hint, code=exits.USAGE)
    except ClientError as error:
        fail(error.error, error.hint, code=exits.UNREACHABLE)


def print_json(body: bytes) -> None:
    """JSON and nothing else on stdout."""
    sys.stdout.write(body.decode() + "\n")


def console(*, stderr: bool = False) -> Console:
    """A console that takes text as it is: no markup, no emoji, nothing coloured by guess."""
    from rich.console import Console  # noqa: PLC0415

    stream = sys.stderr if stderr else sys.stdout
    width = None if stream.isatty() or "COLUMNS" in os.environ else _PIPE_WIDTH
    return Console(stderr=stderr, markup=False, emoji=False, highlight=False, width=width)


def table(*headers: str, title: str | None = None) -> Table:
    """An empty table with these columns. Fill it with :func:`cells`."""
    from rich import box  # noqa: PLC0415
    from rich.table import Table  # noqa: PLC0415

    made = Table(box=box.SIMPLE_HEAD, title=title, title_justify="left", title_style="bold", pad_edge=False)
    for header in headers:
        made.add_column(header, overflow="fold")
    return made


def cells(*values: str | Text) -> Sequence[Text]:
    """A row's values as text that can do nothing to the terminal."""
    from rich.text import Text  # noqa: PLC0415

    return [value if isinstance(value, Text) else Text(visible(value)) for value in values]


def verdict_text(verdict: str, shown: str | None = None) -> Text:
    """``shown`` (or the verdict itself) in the verdict's colour."""
    from rich.text import Text  # noqa: PLC0415

    return Text(visible(shown if shown is not None else verdict), style=_STYLES.get(verdict, "yellow"))


def ago(seconds: float) -> str:
    """An age in few letters: ``3 s``, ``12 min``, ``5 h``, ``3 d``."""
    for size, unit in ((86_400, "d"), (3600, "h"), (60, "min")):
        if seconds >= 2 * size:
            return f"{seconds / size:.0f} {unit}"
    return f"{seconds:.0f} s" if seconds >= 10 else f"{max(seconds, 0):.1f} s"


def percent(ratio: float | None) -> str:
    """A ratio as people read it; ``-`` where nothing was compared. Never rounds up to 100 %."""
    if ratio is None:
        return "-"
    shown = f"{100 * ratio:.2f}"
    if shown == "100.00" and ratio < 1:
        return "> 99.99 %"
    if shown == "0.00" and ratio > 0:
        return "< 0.01 %"
    return f"{shown} %"
