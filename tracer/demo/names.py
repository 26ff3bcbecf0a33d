"""How faults are called on the command line: by their own name, by number, or by the cause to be found."""

from __future__ import annotations

from tracer.demo.plan import KINDS, Fault
from tracer.demo.told import CAUSES
from tracer.join.model import Cause

#: The numbers under which these kinds of fault are known in this project's tests.
NUMBERS: dict[str, tuple[Fault, ...]] = {
    "F1": (Fault.early_completion,),
    "F2": (Fault.chunks_late,),
    "F3": (Fault.tail_zeroed, Fault.tail_unwritten, Fault.tail_unwritten_fresh),
    "F4": (Fault.late_write,),
    "F5": (Fault.component_not_listed,),
    "F6": (Fault.component_withheld,),
    "F7": (Fault.count_mismatch,),
    "F8": (Fault.rows_reordered, Fault.pages_reordered),
    "F10": (Fault.room_reused, Fault.room_twice, Fault.room_twice_keyless),
    "F11": (Fault.never_received,),
    "F12": (Fault.source_changed,),
    "F13": (Fault.overwritten,),
    "F14": (Fault.never_sent,),
    "F15": (Fault.bit_flip,),
    "F16": (Fault.head_slice,),
    "F18": (Fault.sent_early,),
}


def faults_named(name: str) -> tuple[Fault, ...]:
    """The faults that ``name`` stands for; empty if it is unknown."""
    for fault in KINDS:
        if fault.value == name:
            return (fault,)
    if name == Cause.unexplained.value:
        return ()
    return NUMBERS.get(name.upper()) or tuple(
        fault for fault, cause in CAUSES.items() if cause.value == name and fault in KINDS
    )


def names() -> list[str]:
    """All names, for a person to choose from."""
    causes = [
        cause.value for fault, cause in CAUSES.items() if fault in KINDS and cause is not Cause.unexplained
    ]
    return list(dict.fromkeys([*(fault.value for fault in KINDS), *causes]))
