"""What a component's verdict rests on, sentence by sentence."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tracer.join.intervals import from_runs
from tracer.join.model import Cause, How
from tracer.join.wording import join_words, layers_text, pages_text

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from tracer.api.models import Room
    from tracer.api.models.component import Comparison, Component, Donor, Evidence, Timing

_SHAPES = {
    "whole": "all of it differs",
    "early_run": "a run from its beginning on differs",
    "tail_run": "a run up to its end differs",
    "one_run": "one run in the middle differs",
    "stride": "runs at equal distances differ",
    "scattered": "scattered pages differ",
    "one_cell": "a single cell differs",
}


def evidence_lines(part: Component) -> Iterator[str]:
    """What is known of a component beside its place; nothing for one that is equal and was read no more."""
    # The reason of a cause that is told has the shape already.
    if part.shape is not None and part.cause in (None, Cause.unexplained):
        edges = ""
        if part.chunk_edges:
            at = _pages([(page, 1) for page in part.chunk_edges])
            edges = f", with an edge where one of prefill's chunks has one: {at}"
        yield f"{_SHAPES.get(part.shape.value, part.shape.value)}{edges}"
    if part.boundary:
        yield f"{_pages(part.boundary)} right only in part"
    if part.evidence is not None:
        yield from _rests_on(part.evidence)
    if part.timing is not None:
        yield _when(part.timing, part.cause)
    for donor in part.donors:
        yield _donor(donor)
    if part.also_equal:
        yield f"{join_words(part.also_equal)} equal too"
    if part.evidence is not None:
        for sentence in part.evidence.missing:
            yield f"missing: {sentence}"


def exoneration_lines(found: Room) -> Iterator[str]:
    """That the transfer is not the cause, and what that does not speak of."""
    if not found.exonerated:
        return
    yield "the transfer is exonerated: all that both pools have was compared in full, and is equal"
    for sentence in found.not_covered:
        yield f"not covered: {sentence}"


def _rests_on(evidence: Evidence) -> Iterator[str]:
    causes = [f"{count} {name}" for name, count in evidence.causes.items()]
    told = f": {join_words(causes)}" if causes else ""
    units = f"{evidence.unit}s" if evidence.units != 1 else evidence.unit
    differ = "differ" if evidence.units != 1 else "differs"
    yield f"{evidence.units} {units} {differ}{told}"
    for comparison in evidence.comparisons:
        yield _compared(comparison)


def _compared(comparison: Comparison) -> str:
    counts = [
        f"{count} {word}"
        for count, word in (
            (comparison.equal, "equal"),
            (comparison.different, "different"),
            (comparison.unknown, "not known"),
        )
        if count
    ]
    return f"{comparison.look} against {comparison.against}: {join_words(counts) or 'nothing to compare'}"


def _when(timing: Timing, cause: Cause | None) -> str:
    state, other = ("right", "wrong") if cause is Cause.late else ("wrong", "right")
    signal = ""
    if timing.after_signal_s is not None:
        signal = f", {_short(timing.after_signal_s)} after completion was signalled"
    before = f"{timing.before}, {_short(timing.before_s)} after receive" if timing.before_s else timing.before
    return (
        f"first seen {state} at {timing.look}, {_short(timing.after_receive_s)} after receive{signal}; "
        f"last seen {other} at {before}"
    )


def _donor(donor: Donor) -> str:
    layers = f" of {layers_text(donor.layers)}" if donor.layers else ""
    where = f"{_pages(donor.page_runs)}{layers}"
    if donor.how is How.digests:
        return f"room {donor.room}: its bytes were found in {where}"
    return f"room {donor.room} held what is {where} here; whether these are its bytes is not known"


def _pages(runs: list[tuple[int, int]]) -> str:
    return pages_text(from_runs(runs))


def _short(seconds: float) -> str:
    """``1.8 ms``, ``0.25 ms``, ``2.4 s``."""
    return f"{seconds:.3g} s" if seconds >= 1 else f"{seconds * 1000:.3g} ms"


def words(parts: Iterable[Component]) -> list[str]:
    """The sentences of several components. One that holds for some of them is said once, of all of these."""
    said: dict[str, list[str]] = {}
    for part in parts:
        for line in evidence_lines(part):
            said.setdefault(line, []).append(part.component)
    return [f"{join_words(names)}: {line}" for line, names in said.items()]
