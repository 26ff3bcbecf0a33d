"""From a transfer's page lists to a look at its components."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from pd_tracer_hooks.capture import ComponentLook
from pd_tracer_hooks.sglang.extents import Extent, part
from pd_tracer_hooks.sglang.pools import MAIN, Component, Inventory
from pd_tracer_hooks.sglang.rooms import Transfer


def runs_of(pages: Sequence[int], first: int | Sequence[int]) -> Iterator[tuple[int, list[int]]]:
    """(ordinal, pages) for each run of consecutive ordinals."""
    if isinstance(first, int):
        yield first, list(pages)
        return
    start = 0
    for at in range(1, len(pages) + 1):
        if at == len(pages) or first[at] != first[at - 1] + 1:
            yield int(first[start]), list(pages[start:at])
            start = at


def main_looks(
    inventory: Inventory,
    transfer: Transfer,
    pages: Sequence[int],
    *,
    first: int,
    last: bool,
    settled_only: bool,
) -> list[ComponentLook]:
    """Looks at the components that the main page list addresses."""
    looks = []
    for component in inventory.moved:
        if component.source != MAIN or (settled_only and component.tokens_per_row is None):
            continue
        per_row = component.tokens_per_row or 1
        # Until the length is known it is not known either whether the last page counts.
        unsure = transfer.seq_len is None and not last and per_row > 1
        extent = part(
            pages,
            first=first,
            total=None if unsure else transfer.total,
            last=last,
            seq_len=transfer.seq_len,
            page_size=inventory.page_size,
            rows=component.pool.layout.rows,
            tokens_per_row=component.tokens_per_row,
            start=transfer.prefix // inventory.page_size,
        )
        if extent.pages or (last and not extent.total):
            looks.append(_look(component, extent))
    return looks


def state_looks(
    inventory: Inventory, transfer: Transfer, states: Sequence[Sequence[int] | None], *, settled_only: bool
) -> list[ComponentLook]:
    """Looks at the components that state lists address: each comes whole."""
    looks = []
    for component in inventory.moved:
        if component.source == MAIN or component.source >= len(states):
            continue
        pages = states[component.source]
        if not pages or (settled_only and not _settles(component)):
            continue
        start = 0
        if transfer.seq_len and component.tokens_per_row is not None:
            start = max(-(-transfer.seq_len // inventory.page_size) - len(pages), 0)
        extent = part(
            pages,
            first=0,
            total=len(pages),
            last=True,
            seq_len=transfer.seq_len,
            page_size=inventory.page_size,
            rows=component.pool.layout.rows,
            tokens_per_row=component.tokens_per_row,
            start=start,
        )
        if extent.pages:
            looks.append(_look(component, extent))
    return looks


def _settles(component: Component) -> bool:
    """Whether rows stay as they are once decode runs: a window moves, and state is rewritten."""
    return component.tokens_per_row is not None and not component.name.startswith("swa")


def _look(component: Component, extent: Extent) -> ComponentLook:
    return ComponentLook(
        pool=component.pool,
        pages=extent.pages,
        first=extent.first,
        total_pages=extent.total,
        last_rows=extent.last_rows,
        last=extent.last,
        start=extent.start,
    )
