"""``pd-tracer digest``."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tracer.cli import exits
from tracer.cli.output import fail, print_json

if TYPE_CHECKING:
    from pd_tracer_hooks.layout import PageLayout, Segment

_SEGMENT = re.compile(r"(\d{1,12}):(\d{1,12})")


def digest(
    *,
    file: Annotated[Path, typer.Argument(help="One page's bytes; - reads standard input.", metavar="FILE")],
    segment: Annotated[
        list[str] | None,
        typer.Option(metavar="OFFSET:ROW_BYTES", help="Where rows lie in the page; repeat it in order."),
    ] = None,
    rows: Annotated[
        int | None, typer.Option(min=0, help="Valid rows (tokens) of the page; all that fit if not given.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON and nothing else.")] = False,
) -> None:
    """Print the digest of one page, 16 hex digits, as hooks compute it: for checking by hand.

    Without --segment the whole file is the page. A page of DSA index-K is
    --segment 0:128 --segment 8192:4: 64 rows of 128 bytes, then 64 scales of 4 bytes.
    """
    from pd_tracer_hooks.digest.definition import DIGEST_VERSION, hex64  # noqa: PLC0415
    from pd_tracer_hooks.digest.pages import page_digest  # noqa: PLC0415

    page = _read(file)
    layout = _layout(segment or [], len(page), rows)
    if layout is None:
        parts = [page]
    else:
        try:
            parts = layout.valid_parts(page, rows)
        except ValueError as error:
            fail(str(error), code=exits.USAGE)
    value = hex64(page_digest(*parts))
    if as_json:
        valid = sum(map(len, parts))
        print_json(json.dumps({"digest": value, "version": DIGEST_VERSION, "bytes": valid}).encode())
    else:
        typer.echo(value)


def _read(file: Path) -> bytes:
    try:
        return sys.stdin.buffer.read() if str(file) == "-" else file.read_bytes()
    except OSError as error:
        fail(f"{file}", error.strerror or str(error), code=exits.USAGE)


def _layout(segments: list[str], size: int, rows: int | None) -> PageLayout | None:
    """The layout of a page of ``size`` bytes with these segments; None for a page that is digested whole."""
    if not segments:
        if rows is not None:
            fail("--rows needs --segment", "say how long a row is, as in --segment 0:128", code=exits.USAGE)
        return None
    from pd_tracer_hooks.layout import PageLayout  # noqa: PLC0415

    parsed = [_segment(text) for text in segments]
    if len({segment.offset for segment in parsed}) < len(parsed):
        fail(f"segments {', '.join(segments)} begin at the same byte", code=exits.USAGE)
    fits = _rows_that_fit(parsed, size)
    if fits < 1:
        fail(f"no row of {', '.join(segments)} fits into {size} bytes", code=exits.USAGE)
    return PageLayout(size, fits, tuple(parsed))


def _segment(text: str) -> Segment:
    from pd_tracer_hooks.layout import Segment  # noqa: PLC0415

    found = _SEGMENT.fullmatch(text)
    if found is None or int(found[2]) == 0:
        fail(f"--segment {text}", "write OFFSET:ROW_BYTES, as in 0:128", code=exits.USAGE)
    return Segment(int(found[1]), int(found[2]))


def _rows_that_fit(segments: list[Segment], size: int) -> int:
    """Rows until one segment reaches the next one, or the page's end."""
    starts = sorted(segment.offset for segment in segments)
    ends = [*starts[1:], size]
    room = dict(zip(starts, ends, strict=True))
    return min((room[segment.offset] - segment.offset) // segment.row_bytes for segment in segments)
