"""A room's entries, split into attempts and transfers."""

from __future__ import annotations

from collections.abc import Iterable

from pd_tracer_hooks.wire import Detail, Side
from tracer.join.model import AnyEntry, Entry
from tracer.join.openings import open_attempts
from tracer.join.order import canonical
from tracer.join.sends import place_sends
from tracer.join.transfers import Draft


def split(entries: Iterable[AnyEntry]) -> list[Draft]:
    """The attempts of a room, in order, each with its transfers. At least one if there is any entry.

    Page digests make no attempt: they go to every transfer that they may belong to. The order of
    ``entries`` has no influence: decode's openings are ordered by the worker's own ``seq`` within one of its
    lives, and by arrival at the collector otherwise.
    """
    decode: list[Entry] = []
    prefill: list[Entry] = []
    details: list[AnyEntry] = []
    for entry in canonical(entries):
        record = entry.record
        if isinstance(record, Detail):
            details.append(entry)
        else:
            spoken = Entry(entry.worker, entry.received, record)
            (decode if entry.worker.side is Side.decode else prefill).append(spoken)
    drafts = open_attempts(decode)
    place_sends(prefill, drafts)
    drafts.sort(key=lambda draft: draft.moment)
    for detail in details:
        _place(detail, drafts)
    return drafts


def _place(detail: AnyEntry, drafts: Iterable[Draft]) -> None:
    """Which of several looks it is behind is told by its sums, so it may go to too many transfers."""
    for draft in drafts:
        for key, transfer in draft.transfers.items():
            if not key or not detail.record.keys or key in detail.record.keys:
                transfer.details.append(detail)
