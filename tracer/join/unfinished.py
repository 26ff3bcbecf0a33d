"""A component that one side has not completed: waiting, explained by an event, or missing.

A false accusation is worse than a wait. A component is called missing at once only when a manifest says
that it is not moved *and* both sides have completed what they have in common: before that, a pipeline rank
that holds the component may merely not have spoken yet. Otherwise the deadline decides.
"""

from __future__ import annotations

from pd_tracer_hooks.wire import EventKind, Side
from tracer.join import intervals
from tracer.join.expected import not_moved_by
from tracer.join.finding import Finding
from tracer.join.model import Verdict
from tracer.join.parts import SideSum
from tracer.join.scene import Scene
from tracer.join.told import Told, excuse
from tracer.join.wording import join_words, layers_text, pages_text


def unfinished(name: str, prefill: SideSum | None, decode: SideSum | None, scene: Scene) -> Finding:
    """What to say of a component that at least one side has not completed (``None``: not reported).

    ``name`` is empty for a transfer of which no component is known.
    """
    if scene.agreed and (prefill is None or decode is None):
        statement = not_moved_by(name, scene.prefill_manifest, scene.decode_manifest)
        if statement:
            return Finding(Verdict.missing_component, statement + _reporters(prefill, decode))
    prefill_silent = prefill is None or not prefill.complete
    decode_silent = decode is None or not decode.complete
    event = excuse(
        scene.told,
        name,
        prefill_silent=prefill_silent,
        decode_silent=decode_silent,
        received=scene.received,
    )
    if event is not None:
        return _explained(event, prefill, decode)
    if not scene.expired:
        return Finding(Verdict.pending, _awaited(prefill, decode, scene))
    return _missing(prefill, decode, scene)


def _explained(event: Told, prefill: SideSum | None, decode: SideSum | None) -> Finding:
    if event.kind is EventKind.nothing_transferred:
        other = prefill if event.side is Side.decode else decode
        if other is not None and other.pages:
            return Finding(
                Verdict.count_mismatch, f"{other.side} counts {other.pages} pages, but {event.sentence}"
            )
    return Finding(event.verdict, event.sentence)


def _missing(prefill: SideSum | None, decode: SideSum | None, scene: Scene) -> Finding:
    limit = scene.waiting.limit
    prefill_done, decode_done = scene.completed(Side.prefill), scene.completed(Side.decode)
    if prefill is not None and prefill.complete:
        if decode is None and decode_done:
            return _missing_component(scene.decode_who, decode_done, limit)
        return Finding(Verdict.missing_decode, _silence("decode", "receive", decode, scene))
    if prefill is None and prefill_done:
        if decode is not None:
            return _missing_component(scene.prefill_who, prefill_done, limit)
        if decode_done:
            who = f"{scene.prefill_who} and {scene.decode_who}"
            return _missing_component(who, sorted({*prefill_done, *decode_done}), limit)
        return Finding(Verdict.missing_decode, _silence("decode", "receive", None, scene))
    return Finding(Verdict.missing_prefill, _silence("prefill", "send", prefill, scene))


def _missing_component(who: str, done: list[str], limit: str) -> Finding:
    return Finding(
        Verdict.missing_component, f"{who} completed {join_words(done)} and reported nothing of it {limit}"
    )


def _silence(side: str, stage: str, had: SideSum | None, scene: Scene) -> str:
    who, other = scene.prefill_who, scene.decode_who
    if side == "decode":
        who, other = other, who
    other = f" ({other})" if " " in other else ""
    if had is not None:
        part = f"{had.who} reported only a part, without {_lacking(had)}"
        return f"{part}, and no more {scene.waiting.limit}{other}"
    return f"{who} never reported a {stage} {scene.waiting.limit}{other}"


def _awaited(prefill: SideSum | None, decode: SideSum | None, scene: Scene) -> str:
    if prefill is None:
        if decode is None:
            known = [who for who in (scene.prefill_who, scene.decode_who) if " " in who]
            return f"waiting for a send ({join_words(known)})"
        return only_received(decode.who)
    if not prefill.complete:
        return f"waiting for the rest of {prefill.who}'s sends: {_lacking(prefill)}"
    if decode is None:
        return only_sent(prefill.who, scene.decode_who)
    return f"waiting for the rest of {decode.who}'s receive: {_lacking(decode)}"


def only_received(receiver: str) -> str:
    """What is waited for when decode alone has completed a component."""
    return f"waiting for a send of prefill, {receiver} has received"


def only_sent(sender: str, receiver: str) -> str:
    """What is waited for when prefill alone has completed a component."""
    return f"waiting for {receiver}'s receive, {sender} has sent"


def _lacking(side: SideSum) -> str:
    """What a side has not declared yet."""
    need = intervals.needed(side.pages, side.k, side.coverage)
    have = intervals.from_runs([run for part in side.parts for run in part.digest.runs])
    absent = intervals.without(need, have)
    if absent:
        return f"{pages_text(absent)} of {side.pages}"
    return f"some of {layers_text(side.layers)}, {pages_text(need)}"


def _reporters(prefill: SideSum | None, decode: SideSum | None) -> str:
    if prefill is not None:
        return f", {prefill.who} reported it"
    if decode is not None:
        return f", {decode.who} reported it"
    return ", and neither side reported it"
