"""A room's entries, split into attempts and transfers."""

from __future__ import annotations

from collections.abc import Iterable

from pd_tracer_hooks.wire import Side
from tracer.join.model import Entry
from tracer.join.openings import open_attempts
from tracer.join.order import canonical
from tracer.join.sends import place_sends
from tracer.join.transfers import Draft


def split(entries: Iterable[Entry]) -> list[Draft]:
    """The attempts of a room, in order, each with its transfers. At least one if there is any entry.

    The order of ``entries`` has no influence: decode's openings are ordered by the worker's own ``seq``
    within one of its lives, and by arrival at the collector otherwise.
    """
    decode: list[Entry] = []
    prefill: list[Entry] = []
    for entry in canonical(entries):
        (decode if entry.worker.side is Side.decode else prefill).append(entry)
    drafts = open_attempts(decode)
    place_sends(prefill, drafts)
    drafts.sort(key=lambda draft: draft.moment)
    return drafts
