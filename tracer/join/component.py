"""The verdict on one component of one transfer."""

from __future__ import annotations

from msgspec import Struct
from msgspec.structs import replace

from pd_tracer_hooks.wire import Coverage
from tracer.join import intervals
from tracer.join.compare import common_coverage, differing_regions, finals
from tracer.join.counts import count_difference, heads_compared
from tracer.join.expected import layers_held
from tracer.join.explained import explain
from tracer.join.finding import Finding
from tracer.join.model import ComponentVerdict, SideExtent, Verdict
from tracer.join.parts import SideSum
from tracer.join.scene import Scene
from tracer.join.signatures import signature_difference
from tracer.join.unfinished import unfinished
from tracer.join.wording import join_words, layers_text, pages_text

_NOTHING = SideExtent()


class Judged(Struct, frozen=True):
    """A component's verdict, and whether more records or the deadline are still expected to change it."""

    verdict: ComponentVerdict
    open: bool


def judge_component(name: str, scene: Scene) -> Judged:
    """Judge one component. The first of these questions that finds something gives the verdict:

    Did the pages still belong to the room? Are the signatures equal? Do each side's parts add up? Do the
    counts agree? Are both sides complete, over the same layers? Are their sums equal?
    """
    prefill, decode = scene.prefill.get(name), scene.decode.get(name)
    finding = (
        _freed(prefill, decode)
        or signature_difference(name, prefill, decode, scene)
        or _problem(prefill, decode)
    )
    if finding is not None:
        return _judged(name, finding, prefill, decode, scene)
    if prefill is not None and decode is not None:
        counts = count_difference(prefill, decode)
        if counts:
            return _miscounted(name, counts, prefill, decode, scene)
        if prefill.complete and decode.complete:
            if prefill.layers != decode.layers and prefill.pages:
                return _judged(name, _other_layers(prefill, decode, scene), prefill, decode, scene)
            return Judged(_compared(name, prefill, decode, scene), open=False)
    return _judged(name, unfinished(name, prefill, decode, scene), prefill, decode, scene)


def doubtful(name: str, scene: Scene, verdict: Verdict, reason: str) -> Judged:
    """The verdict on a component of a transfer whose sends cannot be told from another's."""
    found = Finding(verdict, reason)
    return _judged(name, found, scene.prefill.get(name), scene.decode.get(name), scene)


def _judged(
    name: str, finding: Finding, prefill: SideSum | None, decode: SideSum | None, scene: Scene
) -> Judged:
    verdict = ComponentVerdict(
        component=name,
        verdict=finding.verdict,
        reason=finding.reason,
        layers_of=layers_held(name, scene.prefill_manifest, scene.decode_manifest),
        prefill=_extent(prefill),
        decode=_extent(decode),
    )
    return Judged(verdict, open=finding.verdict is Verdict.pending)


def _freed(*sides: SideSum | None) -> Finding | None:
    for side in sides:
        if side is not None and side.freed:
            who = f"{side.side} {'worker' if len(side.freed) == 1 else 'workers'} {join_words(side.freed)}"
            return Finding(
                Verdict.dropped, f"pages_freed: the pages were no longer the room's when {who} read them"
            )
    return None


def _problem(prefill: SideSum | None, decode: SideSum | None) -> Finding | None:
    for side in (prefill, decode):
        if side is not None and side.problem is not None:
            return side.problem
    if prefill is not None and decode is not None and prefill.k != decode.k:
        return Finding(
            Verdict.incomparable,
            f"head and tail have {prefill.k} pages on prefill, {decode.k} on decode, under one signature",
        )
    return None


def _miscounted(name: str, counts: str, prefill: SideSum, decode: SideSum, scene: Scene) -> Judged:
    head = heads_compared(prefill, decode)
    verdict = ComponentVerdict(
        component=name,
        verdict=Verdict.count_mismatch,
        reason=counts,
        layers_of=layers_held(name, scene.prefill_manifest, scene.decode_manifest),
        prefill=_extent(prefill),
        decode=_extent(decode),
        notes=[head] if head else [],
    )
    complete = prefill.complete and decode.complete
    return Judged(verdict, open=not (complete or scene.expired))


def _other_layers(prefill: SideSum, decode: SideSum, scene: Scene) -> Finding:
    """Complete over different layers: a pipeline rank may be late, or the sides chose differently."""
    ours, theirs = set(prefill.layers), set(decode.layers)
    absent = []
    if theirs - ours:
        absent.append(f"{layers_text(theirs - ours)} from {prefill.who}")
    if ours - theirs:
        absent.append(f"{layers_text(ours - theirs)} from {decode.who}")
    if not scene.expired:
        return Finding(Verdict.pending, f"waiting for {join_words(absent)}")
    return Finding(Verdict.incomparable, f"layers differ: no {join_words(absent)} {scene.waiting.limit}")


def _compared(name: str, prefill: SideSum, decode: SideSum, scene: Scene) -> ComponentVerdict:
    coverage = common_coverage(prefill, decode)
    ours = _extent(prefill)
    same = prefill.sums == decode.sums and prefill.coverage is decode.coverage
    if_equal = ComponentVerdict(
        component=name,
        verdict=Verdict.match,
        reason=equal_text(prefill.pages, prefill.k, len(prefill.layers), coverage),
        coverage=coverage,
        layers=prefill.layers,
        layers_of=layers_held(name, scene.prefill_manifest, scene.decode_manifest),
        prefill=ours,
        decode=ours if same else _extent(decode),
    )
    if not differing_regions(prefill, decode, coverage) and name not in scene.beside:
        return if_equal
    said = explain(if_equal, scene)
    unsure = [side.who for side in (prefill, decode) if side.ownership_unknown]
    if said.verdict is Verdict.match or not unsure:
        return said
    note = f"{join_words(unsure)} could not tell whether the pages still belonged to the room"
    return replace(said, notes=[*said.notes, note])


def equal_text(pages: int, k: int, layers: int, coverage: Coverage) -> str:
    """How much was compared of a component whose sides are equal."""
    size = f"{pages} pages x {layers} layers"
    if coverage is Coverage.full or not pages:
        return f"equal in full ({size})"
    ends = intervals.needed(pages, k, Coverage.ends)
    middle = intervals.without([(0, pages)], ends)
    unread = f", {pages_text(middle)} not read" if middle else ""
    return f"equal at both ends ({size}{unread})"


def _extent(side: SideSum | None) -> SideExtent:
    if side is None:
        return _NOTHING
    comparable = side.complete and side.problem is None and not side.freed and len(side.signatures) == 1
    return SideExtent(
        pages=side.pages,
        complete=side.complete,
        signature=" ".join(side.signatures),
        finals=finals(side.sums, side.cells, side.coverage) if comparable else {},
    )
