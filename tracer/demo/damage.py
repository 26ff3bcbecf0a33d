"""What faults do to the copies of a transfer: cut them off, lead them astray, change their order. Pure."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from pd_tracer_hooks.layout import PageLayout
from tracer.demo.copies import Copies
from tracer.demo.faults import Aim


def cut_tail(copies: Copies, aim: Aim) -> Copies:
    """Leave out what lies behind the aim's offset: its first page goes in part, later ones not at all."""
    hit = copies.cells(aim.layers, aim.pages)
    size = copies.size.copy()
    size[hit] = 0
    size[copies.cells(aim.layers, aim.pages[:1])] = aim.offset
    cut = _replaced(copies, size=size.astype(np.uint64))
    return cut.where(cut.size > 0)


def zero_tail(copies: Copies, aim: Aim, zeros: int) -> Copies:
    """As :func:`cut_tail`, with what was cut off taken from ``zeros``, the address of a page of zeros."""
    tail = copies.where(copies.cells(aim.layers, aim.pages))
    skipped = np.where(tail.ordinals == aim.pages[0], aim.offset, 0).astype(np.uint64)
    tail = _replaced(
        tail,
        source=np.full(len(tail), zeros, dtype=np.uint64),
        target=tail.target + skipped,
        size=tail.size - skipped,
    )
    return joined(cut_tail(copies, aim), tail.where(tail.size > 0))


def redirect(copies: Copies, cell: Aim, source: int) -> Copies:
    """Copy the aim's one cell from address ``source`` instead of from the room's own page."""
    addresses = copies.source.copy()
    addresses[copies.cells(cell.layers, cell.pages)] = source
    return _replaced(copies, source=addresses)


def swap_pages(copies: Copies, aim: Aim) -> Copies:
    """The aim's two pages arrive in each other's place. Both must be among ``copies``, or neither."""
    target = copies.target.copy()
    for layer in aim.layers:
        one, other = (copies.cells((layer,), (page,)) for page in aim.pages)
        target[one], target[other] = copies.target[other], copies.target[one]
    return _replaced(copies, target=target)


def reverse_rows(copies: Copies, layout: PageLayout, pages: int, last_rows: int) -> Copies:
    """Copy row by row, and in every page of the room the valid rows in reverse order.

    ``pages``: of the room, of which the last has ``last_rows`` valid rows. Invalid rows are left out.
    """
    parts = []
    for last in (False, True):
        chosen = copies.where((copies.ordinals == pages - 1) == last)
        rows = last_rows if last else layout.rows
        for segment in layout.segments:
            offsets = segment.offset + np.arange(rows, dtype=np.uint64) * np.uint64(segment.row_bytes)
            parts.append(_row_by_row(chosen, offsets, offsets[::-1], segment.row_bytes))
    return joined(*parts)


def slice_rows(copies: Copies, rows: int, source_row: int, target_row: int) -> Copies:
    """Copy row by row rows that are narrower at the source: each into the front of the target's row.

    ``rows`` a page; ``source_row``, ``target_row``: bytes of a row on each side.
    """
    numbers = np.arange(rows, dtype=np.uint64)
    return _row_by_row(copies, numbers * np.uint64(source_row), numbers * np.uint64(target_row), source_row)


def joined(*parts: Copies) -> Copies:
    """All copies of one component, one part after the other."""
    columns = {
        name: np.concatenate([getattr(part, name) for part in parts])
        for name in ("layers", "ordinals", "source", "target", "size")
    }
    return Copies(parts[0].component, **columns)


def _row_by_row(
    copies: Copies, source: NDArray[np.uint64], target: NDArray[np.uint64], row_bytes: int
) -> Copies:
    rows = len(source)
    return Copies(
        copies.component,
        np.repeat(copies.layers, rows),
        np.repeat(copies.ordinals, rows),
        (copies.source[:, None] + source).reshape(-1),
        (copies.target[:, None] + target).reshape(-1),
        np.full(len(copies) * rows, row_bytes, dtype=np.uint64),
    )


def _replaced(
    copies: Copies,
    *,
    source: NDArray[np.uint64] | None = None,
    target: NDArray[np.uint64] | None = None,
    size: NDArray[np.uint64] | None = None,
) -> Copies:
    return Copies(
        copies.component,
        copies.layers,
        copies.ordinals,
        copies.source if source is None else source,
        copies.target if target is None else target,
        copies.size if size is None else size,
    )
