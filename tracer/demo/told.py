"""Which cause the collector can tell for each fault, given what is observed. Written before any run."""

from __future__ import annotations

from tracer.demo.plan import Fault, Stages

#: For each fault that ends in a mismatch, the causes that are right when all stages are observed. The first
#: is the one that is meant; another is as true of the same bytes.
CAUSES: dict[Fault, tuple[str, ...]] = {
    Fault.bit_flip: ("unexplained",),
    Fault.wire_bit_flip: ("unexplained",),
    Fault.tail_unwritten: ("stale",),
    Fault.tail_unwritten_fresh: ("zeroed", "stale"),
    Fault.tail_zeroed: ("zeroed",),
    Fault.early_completion: ("late",),
    Fault.chunks_late: ("late",),
    Fault.component_withheld: ("stale",),
    # Bytes of another room that never had these pages: no room can be named.
    Fault.other_rooms_pages: ("unexplained", "cross_room"),
    Fault.late_write: ("cross_room",),
    Fault.rows_reordered: ("reordered",),
    Fault.pages_reordered: ("reordered",),
    Fault.source_changed: ("source_changed",),
    Fault.sent_early: ("sent_early",),
    Fault.overwritten: ("overwritten",),
}

#: Causes that rest on the bytes of ``send`` and ``receive`` alone, so that few stages take nothing away.
_BY_CONTENT = ("zeroed", "reordered", "cross_room")

UNEXPLAINED = "unexplained"


def right_causes(fault: Fault, stages: Stages) -> tuple[str, ...]:
    """The causes that may be named for ``fault``; empty if it ends in no mismatch."""
    causes = CAUSES.get(fault, ())
    if stages == "all":
        return causes
    return tuple(cause for cause in causes if cause in _BY_CONTENT)


def told_of(fault: Fault, stages: Stages, cause: str) -> str:
    """``told`` if ``cause`` is right, ``untold`` if none was named, ``wrong`` if it is another."""
    if cause in right_causes(fault, stages):
        return "told"
    return "untold" if cause == UNEXPLAINED else "wrong"
