"""The verdict on one transfer, from those on its components."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from tracer.join.component import Judged, doubtful, judge_component
from tracer.join.exoneration import not_covered
from tracer.join.expected import expected_names
from tracer.join.model import ComponentVerdict, Donors, Manifests, Policy, TransferVerdict, Verdict
from tracer.join.parts import gather
from tracer.join.scene import NO_DONORS, Scene, scene_of
from tracer.join.told import excuse
from tracer.join.transfers import Transfer
from tracer.join.unfinished import unfinished
from tracer.join.wording import sentences
from tracer.join.worst import foremost, worst


class JudgedTransfer(Struct, frozen=True):
    """A transfer's verdict, and when time alone would change it (None: never, it is settled)."""

    verdict: TransferVerdict
    deadline: float | None


def judge_transfer(
    transfer: Transfer, manifests: Manifests, policy: Policy, now: float, donors: Donors = NO_DONORS
) -> JudgedTransfer:
    """Judge one transfer by what belongs to it. ``now`` is the collector's clock."""
    scene = scene_of(transfer, manifests, policy, now, donors)
    known = {*scene.prefill, *scene.decode}
    names = sorted(known | expected_names(scene.prefill_manifest, scene.decode_manifest))
    if transfer.doubt:
        names = sorted({*names, *gather(transfer.unplaced)})
        judged = _in_doubt(transfer, names, scene)
    else:
        judged = [judge_component(name, scene) for name in names]
    components = [j.verdict for j in judged if j.verdict.component]
    if not judged:
        judged = [_without_components(scene)]
    verdict = worst(j.verdict.verdict for j in judged)
    gaps = not_covered(
        components,
        manifests=scene.prefill_manifest.known and scene.decode_manifest.known,
        start=max((side.start for side in (*scene.prefill.values(), *scene.decode.values())), default=0),
    )
    said = TransferVerdict(
        key=transfer.key,
        verdict=verdict,
        cause=foremost(j.verdict.cause for j in judged if j.verdict.verdict is verdict),
        reason=reason_of([j.verdict for j in judged], verdict),
        components=components,
        prefill_workers=scene.prefill_workers,
        decode_workers=scene.decode_workers,
        notes=_notes(scene, verdict),
        exonerated=gaps is not None,
        not_covered=gaps or [],
    )
    return JudgedTransfer(said, scene.waiting.deadline if any(j.open for j in judged) else None)


def reason_of(components: Sequence[ComponentVerdict], verdict: Verdict) -> str:
    """The reasons of the components that have ``verdict``, each sentence once with the names it is about."""
    names: dict[str, list[str]] = {}
    for component in components:
        if component.verdict is verdict:
            names.setdefault(component.reason, []).append(component.component)
    return sentences(
        f"{', '.join(about)}: {sentence}" if about != [""] else sentence for sentence, about in names.items()
    )


def _without_components(scene: Scene) -> Judged:
    """The verdict on a transfer of which no component is known."""
    finding = unfinished("", None, None, scene)
    verdict = ComponentVerdict(component="", verdict=finding.verdict, reason=finding.reason)
    return Judged(verdict, open=finding.verdict is Verdict.pending)


def _in_doubt(transfer: Transfer, names: Sequence[str], scene: Scene) -> list[Judged]:
    """Judge what is complete without the unplaced sends; the rest waits, or stays ambiguous."""
    waits = transfer.doubt_may_pass and not scene.expired
    verdict = Verdict.pending if waits else Verdict.ambiguous
    judged = []
    for name in names or [""]:
        prefill, decode = scene.prefill.get(name), scene.decode.get(name)
        if prefill is not None and decode is not None and prefill.complete and decode.complete:
            judged.append(judge_component(name, scene))
            continue
        silent = decode is None or not decode.complete
        event = excuse(scene.told, name, prefill_silent=True, decode_silent=silent, received=scene.received)
        if event is not None:
            judged.append(doubtful(name, scene, event.verdict, event.sentence))
        else:
            judged.append(doubtful(name, scene, verdict, transfer.doubt))
    return judged


def _notes(scene: Scene, verdict: Verdict) -> list[str]:
    notes = [
        event.sentence
        for event in scene.told
        if event.verdict is not verdict and event.verdict is not Verdict.nothing_transferred
    ]
    notes += [
        f"prefill worker {worker} retracted the request and sent it again" for worker in scene.sent_again
    ]
    return notes
