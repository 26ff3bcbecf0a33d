"""Why two sides differ: rules that are asked in order, the first that holds names the cause.

A rule is a function of the :class:`Evidence`; it answers with a cause, or None when it does not apply. A new
cause is a new rule, in a file of its own, added to :data:`RULES` where it belongs in the order.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from msgspec import Struct

from tracer.join.model import Cause, Entry, Where
from tracer.join.parts import SideSum


class Evidence(Struct, frozen=True):
    """What a rule may look at: both sides of the component, and all entries of the transfer."""

    component: str
    prefill: SideSum
    decode: SideSum
    where: Where
    prefill_entries: Sequence[Entry]
    decode_entries: Sequence[Entry]


Rule = Callable[[Evidence], Cause | None]

#: None yet: ``send`` and ``receive`` alone show that and where two sides differ, not why.
RULES: tuple[Rule, ...] = ()


def cause_of(evidence: Evidence, rules: Sequence[Rule] = RULES) -> Cause:
    """The first cause that a rule names."""
    for rule in rules:
        cause = rule(evidence)
        if cause is not None:
            return cause
    return Cause.unexplained
