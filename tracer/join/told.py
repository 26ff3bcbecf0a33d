"""What the engines said of a transfer in words instead of bytes: aborted, failed, dropped and the like."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct

from pd_tracer_hooks.wire import Event, EventKind, Side
from tracer.join.model import Entry, Verdict

#: Kinds that can stand for a verdict, in the order in which they are believed.
_VERDICTS = {
    EventKind.failed: Verdict.failed,
    EventKind.aborted: Verdict.aborted,
    EventKind.retracted: Verdict.aborted,
    EventKind.dropped: Verdict.dropped,
    EventKind.sampled_out: Verdict.sampled_out,
    EventKind.nothing_transferred: Verdict.nothing_transferred,
}
_ORDER = {kind: number for number, kind in enumerate(_VERDICTS)}
#: Kinds that end a transfer for both sides. The others explain only why their own side is silent.
_FOR_BOTH = frozenset({EventKind.failed, EventKind.aborted, EventKind.retracted})

_WORDS = {
    EventKind.failed: "failed",
    EventKind.aborted: "aborted",
    EventKind.retracted: "retracted",
    EventKind.dropped: "dropped",
    EventKind.sampled_out: "left out of the sample",
    EventKind.nothing_transferred: "nothing to transfer",
}


class Told(Struct, frozen=True):
    """One such event."""

    kind: EventKind
    verdict: Verdict
    side: Side
    component: str
    sentence: str


def told_by(entries: Iterable[Entry]) -> list[Told]:
    """The events among ``entries`` that can stand for a verdict, most believed first.

    A retraction by prefill is none: it will send again.
    """
    found = [
        (_ORDER[entry.record.kind], entry.worker.side.value, entry.worker.id, entry.record.seq, entry)
        for entry in entries
        if isinstance(entry.record, Event)
        and entry.record.kind in _ORDER
        and not (entry.record.kind is EventKind.retracted and entry.worker.side is Side.prefill)
    ]
    found.sort(key=lambda item: item[:4])
    return [_told(item[4]) for item in found]


def _told(entry: Entry) -> Told:
    event = entry.record
    assert isinstance(event, Event)
    sentence = f"{_WORDS[event.kind]}, says {entry.worker.side.value} worker {entry.worker.id}"
    if event.reason:
        sentence += f": {event.reason}"
    return Told(event.kind, _VERDICTS[event.kind], entry.worker.side, event.component, sentence)


def excuse(
    told: Iterable[Told], name: str, *, prefill_silent: bool, decode_silent: bool, received: bool
) -> Told | None:
    """The event that explains why a component is not complete, if one does.

    ``prefill_silent`` and ``decode_silent``: that side has not completed the component. ``received``: the
    decode side has completed whatever it reports, so an abort or failure came too late to matter.
    """
    for event in told:
        if event.component not in ("", name):
            continue
        if event.kind in _FOR_BOTH:
            if not received:
                return event
        elif event.side is Side.prefill:
            if prefill_silent:
                return event
        elif decode_silent:
            return event
    return None
