"""A component of which both sides are complete, explained: what differs, where, and why.

Comes after the plain comparison of ``send`` and ``receive``, when those differ or when there are other looks.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from msgspec.structs import replace

from pd_tracer_hooks.wire import Coverage
from tracer.join import intervals
from tracer.join.causes import Classified, classify
from tracer.join.causes.case import Case
from tracer.join.compare import common_coverage, describe, differing_regions, locate
from tracer.join.details import Cell
from tracer.join.intervals import Spans
from tracer.join.looks import Look, Looks, looks_at, unusable_digests
from tracer.join.model import (
    Cause,
    Comparison,
    ComponentVerdict,
    Donor,
    Evidence,
    How,
    LayerPages,
    Shape,
    Verdict,
    Where,
)
from tracer.join.parts import REGIONS, SideSum
from tracer.join.places import Place, cells_in, differing, differing_rows, equal, read_by, same
from tracer.join.scene import Scene
from tracer.join.shape import chunk_edges, inner_ends, shape_of
from tracer.join.telling import Tale, changed_after, held_text, shape_text, tell
from tracer.join.timing import timing_of
from tracer.join.values import Values
from tracer.join.wording import join_words
from tracer.join.zeros import Zeros

#: Runs that ``Where.cells`` lists, at most.
MAX_RUNS = 1024


def explain(base: ComponentVerdict, scene: Scene) -> ComponentVerdict:
    """The verdict on a component of which both sides are complete over the same cells.

    ``base`` is the verdict if everything is equal.
    """
    looks = looks_at(base.component, scene)
    source, decode = looks.sent.total, looks.received.total
    regions = differing_regions(source, decode, common_coverage(source, decode))
    if regions:
        return _mismatch(base, looks, regions, decode, scene)
    base = replace(base, also_equal=_also_equal(looks, decode), notes=[*base.notes, *_notes(looks, decode)])
    return _overwritten(base, looks, decode) or base


def _mismatch(
    base: ComponentVerdict, looks: Looks, regions: list[str], decode: SideSum, scene: Scene
) -> ComponentVerdict:
    source = looks.sent.total
    sent, received = looks.sent.values, looks.received.values
    places = differing(sent, received, decode) or [
        place for place in read_by(sent, received, decode) if place.key[0] == "region"
    ]
    signature = source.signatures[0]
    fields = scene.prefill_manifest.fields(base.component, signature)
    zeros = Zeros(decode, fields or scene.decode_manifest.fields(base.component, signature))
    donors = scene.donors.get(base.component, ())
    case = Case(looks, places, zeros, donors)
    said = classify(case)
    if said.cause is Cause.unexplained and not any(place.kind == "cell" for place in places):
        # Damage to some layers only is hidden in sums over all of them.
        rows = Case(looks, differing_rows(sent, received, decode), zeros, donors)
        if rows.places and (by_layer := classify(rows)).cause is not Cause.unexplained:
            case, said = rows, by_layer
    where = locate(source, decode, regions, common_coverage(source, decode))
    where = _with_cells(where, cells_in(places, sent, received, decode))
    shape, edges = _shape(where, places, looks.sent.total, decode)
    return _told(replace(base, where=where, shape=shape, chunk_edges=edges), case, said, looks, decode)


def _told(
    base: ComponentVerdict, case: Case, said: Classified, looks: Looks, decode: SideSum
) -> ComponentVerdict:
    """``base``, which says where, with the cause and what it rests on."""
    where, shape, edges = base.where, base.shape, base.chunk_edges
    assert where is not None
    at_edges = {place.key for place in said.boundary}
    mine = [place for place in said.of(case.places) if place.key not in at_edges]
    timing = None
    if said.cause is Cause.late:
        timing = timing_of(
            looks.later, looks.received, lambda look: _all([case.right_at(look, place) for place in mine])
        )
    donors = _donors(case, mine)
    boundary = intervals.merged((place.first, place.end) for place in said.boundary)
    held = held_text(donors) if said.cause is Cause.unexplained else ""
    if said.cause is Cause.unexplained:
        told = shape_text(shape, edges) if _all_on_edges(where, edges, decode.pages) else ""
        reason = describe(where, decode.pages, decode.k) + told + held
    else:
        tale = Tale(
            case=case,
            places=mine,
            spans=_spans(mine) if len(mine) < len(case.places) else intervals.from_runs(where.page_runs),
            layers=sorted({layer for place in mine for layer in place.layers}) or where.layers,
            shape=shape,
            chunk_edges=edges if _all_on_edges(where, edges, decode.pages) else [],
            boundary=boundary,
            timing=timing,
            donors=donors,
        )
        reason = tell(said.cause, tale) + _rest(said)
    return replace(
        base,
        verdict=Verdict.mismatch,
        cause=said.cause,
        reason=reason,
        timing=timing,
        donors=donors,
        boundary=intervals.to_runs(boundary),
        evidence=Evidence(
            unit=join_words(sorted({place.kind for place in case.places})),
            units=len(case.places),
            causes=said.counts,
            comparisons=_comparisons(looks, case.places),
            missing=[*said.missing, *looks.unusable, *unusable_digests(looks)],
        ),
    )


def _overwritten(base: ComponentVerdict, looks: Looks, decode: SideSum) -> ComponentVerdict | None:
    """The verdict on a component that arrived as it was sent, if an owned later look found it changed."""
    received = looks.received.values
    for look in looks.later:
        places = differing(received, look.values, decode) if look.owned else []
        if not places:
            continue
        where = _where(places, received, look.values, decode)
        shape, edges = _shape(where, places, looks.sent.total, decode)
        case = Case(looks, places, Zeros(decode, {}))
        timing = timing_of(
            [other for other in looks.later if other.owned],
            looks.received,
            partial(_changed, received, places),
        )
        tale = Tale(
            case=case,
            places=places,
            spans=intervals.from_runs(where.page_runs),
            layers=where.layers,
            shape=shape,
            chunk_edges=edges if _all_on_edges(where, edges, decode.pages) else [],
            boundary=[],
            timing=timing,
            donors=(),
        )
        return replace(
            base,
            verdict=Verdict.mismatch,
            cause=Cause.overwritten,
            reason=tell(Cause.overwritten, tale),
            where=where,
            shape=shape,
            chunk_edges=edges,
            timing=timing,
            evidence=Evidence(
                unit=join_words(sorted({place.kind for place in places})),
                units=len(places),
                causes={Cause.overwritten.value: len(places)},
                comparisons=_comparisons(looks, places),
                missing=looks.unusable,
            ),
        )
    return None


def _also_equal(looks: Looks, decode: SideSum) -> list[str]:
    """Looks beside send and receive that read all that these did, and found the same."""
    received = looks.received.values
    others = [looks.sent if looks.sent_at_once is not None else None, looks.release, *looks.later]
    return [look.name for look in others if look is not None and equal(received, look.values, decode)]


def _notes(looks: Looks, decode: SideSum) -> list[str]:
    """What was seen beside, and does not count against the transfer."""
    notes = list(looks.unusable)
    received = looks.received.values
    if looks.sent_at_once is not None and differing(looks.sent_at_once.values, received, decode):
        notes.append(
            "prefill's pages were still being computed when they were handed over, and arrived right"
        )
    if looks.release is not None and (changed := differing(received, looks.release.values, decode)):
        what = "release found other bytes on prefill than had been sent,"
        notes.append(changed_after(what, _spans(changed)))
    for look in looks.later:
        if not look.owned and (changed := differing(received, look.values, decode)):
            what = f"{look.name} found other bytes, and whether the pages were still the room's is not known,"
            notes.append(changed_after(what, _spans(changed)))
    return notes


def _comparisons(looks: Looks, places: Sequence[Place]) -> list[Comparison]:
    sent, received = looks.sent, looks.received
    pairs: list[tuple[Look | None, Look]] = [
        (received, sent),
        (looks.sent_at_once, received),
        *((look, sent) for look in looks.later),
        (looks.release, sent),
        (looks.release, received),
        (looks.allocate, received),
    ]
    return [_comparison(look, against, places) for look, against in pairs if look is not None]


def _comparison(look: Look, against: Look, places: Sequence[Place]) -> Comparison:
    found = [same(look.values, against.values, place) for place in places]
    return Comparison(
        look=look.name,
        against=against.name,
        equal=found.count(True),
        different=found.count(False),
        unknown=found.count(None),
    )


def _rest(said: Classified) -> str:
    """What is said of places that have another cause than the one that is named."""
    counts = dict(said.counts)
    named = counts.pop(said.cause.value)
    if not counts:
        return ""
    others = join_words([f"{count} {cause.replace('_', ' ')}" for cause, count in counts.items()])
    return f" ({named} of {len(said.causes)} places; {others})"


def _donors(case: Case, places: Sequence[Place]) -> list[Donor]:
    """Donors found at the places; of those that only held pages, all whose pages are among them."""
    spans = _spans(places)
    found = [donor for donor in case.donors if any(donor in case.givers(place) for place in places)]
    held = [
        donor
        for donor in case.donors
        if donor.how is How.held and intervals.shared(spans, intervals.from_runs(donor.page_runs))
    ]
    return [*found, *held]


def _shape(
    where: Where, places: Sequence[Place], source: SideSum, decode: SideSum
) -> tuple[Shape | None, list[int]]:
    """The shape, and the chunk edges at which it ends. Regions alone have none."""
    if any(place.kind == "region" for place in places):
        return None, []
    spans = intervals.from_runs(where.page_runs)
    exact = _exact(places) or (bool(where.cells) and not where.cells_left_out)
    cells = sum(count for layer in where.cells for _, count in layer.runs) + where.cells_left_out
    if not cells and exact and len(where.layers) == 1:
        cells = intervals.size(spans)
    total = len(decode.layers) * decode.pages
    chunks = [span for part in source.parts for span in intervals.from_runs(part.digest.runs)]
    edges = chunk_edges(spans, chunks, decode.pages) if exact else []
    return shape_of(spans, decode.pages, cells=cells, of=total), edges


def _all_on_edges(where: Where, edges: Sequence[int], pages: int) -> bool:
    """Whether every run ends with chunks: one end alone may be chance, and is not put into words."""
    return bool(edges) and inner_ends(intervals.from_runs(where.page_runs), pages) <= set(edges)


def _exact(places: Sequence[Place]) -> bool:
    return all(place.end - place.first == 1 for place in places)


def _where(places: Sequence[Place], left: Values, right: Values, decode: SideSum) -> Where:
    """Where two looks differ of which one may be partial."""
    regions = [
        name
        for number, name in enumerate(REGIONS)
        if (ours := left.get(("region", number, 0))) is not None
        and (theirs := right.get(("region", number, 0))) is not None
        and ours != theirs
    ]
    rows = differing_rows(left, right, decode)
    where = Where(
        regions=regions or (["body"] if decode.coverage is Coverage.full else []),
        layers=sorted({layer for row in rows for layer in row.layers}),
        page_runs=intervals.to_runs(_spans(places)),
    )
    return _with_cells(where, cells_in(places, left, right, decode))


def _with_cells(where: Where, differing: Sequence[Cell]) -> Where:
    """Exact layers and pages, where it is known which cells differ."""
    if not differing:
        return where
    pages: dict[int, list[intervals.Span]] = {}
    for layer, page in differing:
        pages.setdefault(layer, []).append((page, page + 1))
    left = MAX_RUNS
    cells = []
    left_out = 0
    for layer in sorted(pages):
        runs = intervals.to_runs(intervals.merged(pages[layer]))
        if left:
            cells.append(LayerPages(layer=layer, runs=runs[:left]))
        left_out += len(runs[left:])
        left -= min(left, len(runs))
    return replace(
        where,
        layers=sorted(pages),
        page_runs=intervals.to_runs(intervals.merged((page, page + 1) for _, page in differing)),
        cells=cells,
        cells_left_out=left_out,
    )


def _spans(places: Sequence[Place]) -> Spans:
    return intervals.merged((place.first, place.end) for place in places)


def _all(found: Sequence[bool | None]) -> bool | None:
    if False in found:
        return False
    return True if found and None not in found else None


def _changed(received: Values, places: Sequence[Place], look: Look) -> bool | None:
    """Whether a look found any of the places changed; None if it cannot tell."""
    found = [same(received, look.values, place) for place in places]
    if False in found:
        return True
    return False if found and None not in found else None
