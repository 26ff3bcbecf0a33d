"""How long a transfer is waited for, by the collector's clock."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from msgspec import Struct

from pd_tracer_hooks.wire import Event, EventKind, Stage
from tracer.join.model import Entry, Policy
from tracer.join.transfers import is_look
from tracer.join.wording import seconds_text

_RESTARTS = frozenset({EventKind.started, EventKind.retracted})


class Patience(Struct, frozen=True):
    """When waiting ends, and what for: ``limit`` says since when and how long, as a sentence's end."""

    deadline: float
    limit: str


def patience(prefill: Sequence[Entry], decode: Sequence[Entry], policy: Policy) -> Patience:
    """The deadline of one transfer. There must be at least one entry.

    Until anything was sent or received it is the long one, from ``opened`` or a later ``started``. After
    that it is the short one, from the last ``send`` or ``receive``; a prefill worker that starts anew after
    its sends is given the long one again.
    """
    sent = latest(prefill, Stage.send)
    received = latest(decode, Stage.receive)
    if sent is None and received is None:
        return _from_opened([*prefill, *decode], policy)
    seconds = seconds_text(policy.send_deadline_s)
    if received is None or (sent is not None and sent >= received):
        assert sent is not None
        waiting = Patience(sent + policy.send_deadline_s, f"within {seconds} of the last send")
    else:
        waiting = Patience(received + policy.send_deadline_s, f"within {seconds} of the last receive")
    restarted = _restarted(prefill)
    if restarted is not None and restarted + policy.open_deadline_s > waiting.deadline:
        limit = f"within {seconds_text(policy.open_deadline_s)} of prefill's new start"
        return Patience(restarted + policy.open_deadline_s, limit)
    return waiting


def latest(entries: Iterable[Entry], stage: Stage) -> float | None:
    """When the last first look at ``stage`` arrived, or None."""
    times = [entry.received for entry in entries if is_look(entry, stage)]
    return max(times) if times else None


def _from_opened(entries: Sequence[Entry], policy: Policy) -> Patience:
    begun = [
        (entry.received, entry.record.kind.value)
        for entry in entries
        if isinstance(entry.record, Event) and entry.record.kind in (EventKind.opened, *_RESTARTS)
    ]
    base, what = max(begun, default=(0.0, ""))
    if not begun:
        base, what = max(entry.received for entry in entries), "the last report"
    return Patience(base + policy.open_deadline_s, f"within {seconds_text(policy.open_deadline_s)} of {what}")


def _restarted(prefill: Sequence[Entry]) -> float | None:
    """When a prefill worker said that it begins again, after its last send."""
    starts = [e for e in prefill if isinstance(e.record, Event) and e.record.kind in _RESTARTS]
    if not starts:
        return None
    last: dict[tuple[str, str], int] = {}
    for entry in prefill:
        if is_look(entry, Stage.send):
            source = (entry.worker.id, entry.worker.boot)
            last[source] = max(entry.record.seq, last.get(source, -1))
    again = [e for e in starts if e.record.seq > last.get((e.worker.id, e.worker.boot), e.record.seq)]
    return max((entry.received for entry in again), default=None)
