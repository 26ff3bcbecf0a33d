"""A verdict in one line of words, for the API, the command line and whoever is paged at night.

Pure functions. What workers named is shown with its control characters escaped, so that a line stays one
line and a terminal is not told what to do.
"""

from __future__ import annotations

from collections.abc import Sequence

from pd_tracer_hooks.wire import Coverage
from tracer.join.intervals import from_runs
from tracer.join.model import Cause, ComponentVerdict, RoomVerdict, Verdict, Where
from tracer.join.wording import join_words, layers_text, pages_text

#: Components that are described one by one; of more only the number is said.
_SHOWN = 3

WORDS = {
    Verdict.match: "match",
    Verdict.mismatch: "mismatch",
    Verdict.incomparable: "incomparable",
    Verdict.count_mismatch: "count mismatch",
    Verdict.missing_component: "missing component",
    Verdict.missing_decode: "decode side missing",
    Verdict.missing_prefill: "prefill side missing",
    Verdict.ambiguous: "ambiguous",
    Verdict.aborted: "aborted",
    Verdict.failed: "failed",
    Verdict.nothing_transferred: "nothing transferred",
    Verdict.pending: "pending",
    Verdict.sampled_out: "sampled out",
    Verdict.dropped: "dropped",
}


def explain(room: str, said: RoomVerdict, *, prefill: str = "", decode: str = "") -> str:
    """Say what happened to a room: ``room X: index_k mismatch, layer 3, tail, pages 60-63, pair A→B``.

    ``prefill`` and ``decode`` are the servers of the pair, empty where unknown.
    """
    clauses = [_finding(said)]
    if said.cause is not None and said.cause.value != Cause.unexplained.value:
        clauses.append(f"cause {said.cause.value}")
    if prefill or decode:
        clauses.append(f"pair {pair_text(prefill, decode)}")
    if len(said.attempts) > 1:
        clauses.append(f"attempt {said.attempts[-1].number}")
    if not said.settled and said.verdict is not Verdict.pending:
        clauses.append("not settled yet")
    return f"room {visible(room)}: {', '.join(clauses)}"


def pair_text(prefill: str, decode: str) -> str:
    """``A→B``, with ``?`` for a side that nobody named."""
    return f"{visible(prefill) or '?'}→{visible(decode) or '?'}"


def where_text(where: Where | None) -> str:
    """``layer 3, tail, pages 60-63``: as much of it as is known, or nothing."""
    if where is None:
        return ""
    clauses = []
    if where.layers:
        clauses.append(layers_text(where.layers))
    # Read in full, whatever is wrong at an end is wrong in the body too: the end says more.
    regions = [region for region in where.regions if region != "body"] or where.regions
    if regions:
        clauses.append(join_words(regions))
    if where.page_runs:
        clauses.append(pages_text(from_runs(where.page_runs)))
    return ", ".join(clauses)


def visible(text: str) -> str:
    """``text`` with everything that cannot be printed, or that turns the line's direction, escaped."""
    if text.isprintable():
        return text
    return "".join(
        char if char.isprintable() else char.encode("unicode_escape", "backslashreplace").decode()
        for char in text
    )


def _finding(said: RoomVerdict) -> str:
    parts = [part for part in said.components if part.verdict is said.verdict]
    if said.verdict is Verdict.mismatch and parts:
        return _several([_mismatch(part) for part in parts])
    if said.verdict is Verdict.match and parts:
        return _match(parts)
    words = WORDS[said.verdict]
    reason = said.reason or next((part.reason for part in parts if part.reason), "")
    if said.verdict in _OF_COMPONENTS and parts:
        words = f"{join_words([visible(part.component) for part in parts])} {_OF_COMPONENTS[said.verdict]}"
        # The join says of which components it speaks; that was just said.
        reason = reason.removeprefix(f"{', '.join(part.component for part in parts)}: ")
    return f"{words} ({visible(reason.rstrip('.'))})" if reason else words


#: Verdicts that are found component by component, and what is said of these.
_OF_COMPONENTS = {
    Verdict.count_mismatch: "count mismatch",
    Verdict.incomparable: "incomparable",
    Verdict.missing_component: "missing",
}


def _mismatch(part: ComponentVerdict) -> str:
    where = where_text(part.where)
    found = f"{visible(part.component)} mismatch"
    return f"{found}, {where}" if where else found


def _several(clauses: Sequence[str]) -> str:
    more = len(clauses) - _SHOWN
    shown = "; ".join(clauses[:_SHOWN])
    return f"{shown}; {more} more component{'s' if more > 1 else ''}" if more > 0 else shown


def _match(parts: Sequence[ComponentVerdict]) -> str:
    names = join_words([visible(part.component) for part in parts])
    if any(part.coverage is not Coverage.full for part in parts):
        extent = "at both ends only, the middle was not read"
    else:
        extent = "in every page"
    partial = [
        f"{len(part.layers)} of {part.layers_of} layers of {visible(part.component)}"
        for part in parts
        if part.layers_of and len(part.layers) < part.layers_of
    ]
    return f"{names} match {extent}" + (f" ({join_words(partial)})" if partial else "")
