"""The map of bad cells as rows of blocks: layers down, pages across, folded into as many columns as fit.

Each state has a glyph of its own, so that the map can be read without its colours.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from tracer.join.intervals import merged
from tracer.join.wording import layers_text, ranges
from tracer.pagemap import CellState, worst_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rich.text import Text

    from tracer.api.models.room import MapRow, PageMap

#: Most rows of one map; layers that are alike share one.
MAX_ROWS = 40
#: Widest label of a row, in characters.
_LABEL = 26
_STYLES = {
    CellState.bad: "bold red",
    CellState.suspected: "yellow",
    CellState.unknown: "dim",
    CellState.good: "green",
}


@dataclass(frozen=True)
class Glyphs:
    """What stands for a block in each state."""

    by_state: dict[CellState, str]

    @classmethod
    def for_encoding(cls, encoding: str) -> Glyphs:
        """Blocks where the terminal can show them, else letters that any can."""
        try:
            "█▒·".encode(encoding)
        except (UnicodeEncodeError, LookupError):
            return cls(dict(zip(CellState, "#+?.", strict=True)))
        return cls(dict(zip(CellState, "█▒?·", strict=True)))


def legend(glyphs: Glyphs) -> Text:
    """What each glyph means, on one line."""
    from rich.text import Text  # noqa: PLC0415

    line = Text()
    for state in CellState:
        line.append(glyphs.by_state[state], style=_STYLES[state])
        line.append(f" {state.value}  ")
    line.rstrip()
    return line


def blocks(found: PageMap, width: int, glyphs: Glyphs) -> Iterator[Text]:
    """One line a row of the map, none wider than ``width``, with a ruler of pages below."""
    from rich.text import Text  # noqa: PLC0415

    rows = found.rows[:MAX_ROWS]
    margin, pages = _margin(found), _pages_a_column(found, width)
    columns = -(-found.pages // pages)
    for row in rows:
        line = Text(f"{_label(row):>{margin}}  ")
        for column in range(columns):
            state = worst_of(row.runs, column * pages, pages)
            line.append(glyphs.by_state[state], style=_STYLES[state])
        yield line
    if len(found.rows) > MAX_ROWS:
        yield Text(f"{'':>{margin}}  and {len(found.rows) - MAX_ROWS} more rows: --json has them")
    yield Text(f"{'':>{margin}}  {_ruler(found.pages, columns)}", style="dim")


def heading(found: PageMap, width: int) -> str:
    """What the map is of, and how it was folded."""
    layers = sum(len(row.layers) for row in found.rows)
    pages = _pages_a_column(found, width)
    how = "cell by cell, from page digests" if found.exact else "from sums: where damage can lie"
    fold = f", {pages} pages a column" if pages > 1 else ""
    key = f" of transfer {found.key}" if found.key else ""
    return f"{found.component}{key}: {found.pages} pages x {layers} layers{fold}; {how}"


def _margin(found: PageMap) -> int:
    return max((len(_label(row)) for row in found.rows[:MAX_ROWS]), default=0)


def _pages_a_column(found: PageMap, width: int) -> int:
    """As few as fit. A block of the map must not straddle columns, since it would show twice."""
    columns = max(1, min(found.pages, width - _margin(found) - 2))
    return -(-found.pages // (columns * found.grain)) * found.grain


def _label(row: MapRow) -> str:
    label = layers_text(row.layers)
    if len(label) <= _LABEL:
        return label
    spans = merged((layer, layer + 1) for layer in row.layers)
    return f"{len(row.layers)} layers, {ranges(spans[:1])}, ..."


def _ruler(pages: int, columns: int) -> str:
    """The first page and the last, at both ends."""
    last = str(pages - 1)
    if columns < len(last) + 2:
        return f"0 to {last}" if pages > 1 else "0"
    return "0" + last.rjust(columns - 1)
