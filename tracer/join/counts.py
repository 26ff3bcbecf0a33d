"""Do the two sides speak of the same amount: pages, tokens, rows, the page where the transfer starts."""

from __future__ import annotations

from tracer.join.parts import SideSum


def count_difference(prefill: SideSum, decode: SideSum) -> str:
    """The first count in which the sides differ, with both values; empty when none does.

    Pages are always stated. The others are compared only where both sides state them.
    """
    for noun, ours, theirs in (
        ("pages", prefill.pages, decode.pages),
        ("tokens", prefill.tokens, decode.tokens),
        ("rows in the last page", prefill.last_rows, decode.last_rows),
        ("as the page where the transfer starts", prefill.start or None, decode.start or None),
    ):
        if ours is not None and theirs is not None and ours != theirs:
            return f"prefill counts {ours}, decode {theirs} {noun}"
    return ""


def heads_compared(prefill: SideSum, decode: SideSum) -> str:
    """What the heads say although the counts differ, as a note; empty when they cannot be compared."""
    if not (prefill.complete and decode.complete) or prefill.layers != decode.layers:
        return ""
    if prefill.cells[0] != decode.cells[0] or not prefill.cells[0]:
        return ""
    pages = min(prefill.k, prefill.pages)
    same = "equal" if prefill.sums[0] == decode.sums[0] else "different"
    return f"head (the first {pages} pages) is {same}"
