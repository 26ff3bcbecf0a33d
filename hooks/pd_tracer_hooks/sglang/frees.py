"""Which pages an allocator's free gives back, where that can be read without waiting for a device."""

from __future__ import annotations

from typing import Any

from pd_tracer_hooks.sglang.host_pages import as_pages, on_host


def freed_pages(lists: Any, page_size: int) -> list[int]:
    """Pages in a free's argument (tokens if ``page_size`` is above 1), or none where it lies on a device."""
    items = lists if isinstance(lists, tuple | list) else (lists,)
    pages: set[int] = set()
    for item in items:
        if on_host(item):
            pages.update(index // page_size for index in as_pages(item))
    return sorted(pages)
