"""The verdict on a room: the join's front door."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import TypeGuard

from pd_tracer_hooks.wire import Detail, Stage
from tracer.join.attempts import split
from tracer.join.model import (
    AnyEntry,
    Attempt,
    ComponentVerdict,
    Donors,
    Entry,
    Manifests,
    Policy,
    RoomVerdict,
    TransferVerdict,
    Verdict,
)
from tracer.join.patience import latest
from tracer.join.plain import MAX_ENTRIES, judge_plain
from tracer.join.scene import NO_DONORS
from tracer.join.transfer import JudgedTransfer, judge_transfer
from tracer.join.transfers import Draft
from tracer.join.wording import join_words, sentences
from tracer.join.worst import foremost, severity, worst

#: Page digests that come when the observations they belong to are here no more.
_NO_LOOKS = "page digests came, and the observations that they belong to are not here"
_DIGESTS_ALONE = RoomVerdict(
    verdict=Verdict.dropped,
    reason=_NO_LOOKS,
    settled=True,
    attempts=[
        Attempt(
            number=1,
            verdict=Verdict.dropped,
            reason=_NO_LOOKS,
            transfers=[TransferVerdict(key="", verdict=Verdict.dropped, reason=_NO_LOOKS)],
        )
    ],
)

#: Verdicts of earlier attempts that a reason need not mention.
_UNREMARKABLE = frozenset({Verdict.match, Verdict.nothing_transferred, Verdict.sampled_out, Verdict.pending})


def judge(
    entries: Sequence[AnyEntry],
    manifests: Manifests,
    policy: Policy,
    now: float,
    donors: Donors = NO_DONORS,
) -> RoomVerdict:
    """Say what is known of a room. Pure: the same entries, in whatever order, give the same verdict.

    ``entries`` are all records of one room of one deployment, ``manifests`` those of its workers as far as
    they are known; ``donors`` are other rooms whose bytes may be in this one's pages. ``now`` and
    ``Entry.received`` are seconds by the collector's clock. Judging again with more entries, or after
    ``deadline``, revises the verdict. Raises ``ValueError`` without entries.
    """
    if _few(entries):
        plain = judge_plain(entries, manifests, policy, now)
        if plain is not None:
            return plain
    return judge_generally(entries, manifests, policy, now, donors)


def _few(entries: Sequence[AnyEntry]) -> TypeGuard[Sequence[Entry]]:
    """Whether there are so few entries that the room may be plain, and no page digests among them."""
    return len(entries) <= MAX_ENTRIES and not any(type(entry.record) is Detail for entry in entries)


def judge_generally(
    entries: Sequence[AnyEntry],
    manifests: Manifests,
    policy: Policy,
    now: float,
    donors: Donors = NO_DONORS,
) -> RoomVerdict:
    """:func:`judge` without its short way for plain rooms: what that is held against."""
    drafts = split(entries)
    if not drafts:
        if entries:
            return _DIGESTS_ALONE
        raise ValueError("entries is empty: a room has a verdict from its first record on")
    judged = [
        [
            judge_transfer(draft.transfers[key], manifests, policy, now, donors)
            for key in sorted(draft.transfers)
        ]
        for draft in drafts
    ]
    attempts = [
        _attempt(number, draft, [j.verdict for j in transfers])
        for number, (draft, transfers) in enumerate(zip(drafts, judged, strict=True), 1)
    ]
    latest = attempts[-1]
    return RoomVerdict(
        verdict=latest.verdict,
        cause=latest.cause,
        reason=_reason(attempts),
        settled=all(j.deadline is None for j in judged[-1]),
        deadline=_earliest([j for transfers in judged for j in transfers]),
        attempts=attempts,
        components=_components(latest.transfers),
        trace=_first(entry.record.trace for entry in _entries(drafts[-1])),
        join_delay_s=_join_delay(drafts[-1]),
        exonerated=all(transfer.exonerated for transfer in latest.transfers),
        not_covered=_not_covered(latest.transfers),
    )


def _attempt(number: int, draft: Draft, transfers: list[TransferVerdict]) -> Attempt:
    verdict = worst(transfer.verdict for transfer in transfers)
    alike = [transfer for transfer in transfers if transfer.verdict is verdict]
    reason = sentences(dict.fromkeys(transfer.reason for transfer in alike))
    if len(transfers) > 1 and len(alike) < len(transfers):
        reason = f"{len(alike)} of {len(transfers)} transfers: {reason}"
    prefill = [entry for transfer in draft.transfers.values() for entry in transfer.prefill]
    decode = [entry for transfer in draft.transfers.values() for entry in transfer.decode]
    unplaced = [entry for transfer in draft.transfers.values() for entry in transfer.unplaced]
    return Attempt(
        number=number,
        verdict=verdict,
        cause=foremost(transfer.cause for transfer in alike),
        reason=reason,
        prefill_server=_server(prefill) or _server(unplaced) or _peer(decode),
        decode_server=_server(decode) or _peer(prefill) or _peer(unplaced),
        request_prefill=_first(entry.record.request for entry in prefill),
        request_decode=_first(entry.record.request for entry in decode),
        transfers=transfers,
    )


def _server(entries: Sequence[Entry]) -> str:
    """The server of a side; of several, the one that made most records."""
    servers = [entry.worker.server for entry in entries]
    different = set(servers)
    return (
        next(iter(different))
        if len(different) == 1
        else max(sorted(different), key=servers.count, default="")
    )


def _peer(entries: Sequence[Entry]) -> str:
    return min((entry.record.peer for entry in entries if entry.record.peer), default="")


def _first(texts: Iterable[str]) -> str:
    return next((text for text in texts if text), "")


def _entries(draft: Draft) -> list[Entry]:
    return [e for transfer in draft.transfers.values() for e in (*transfer.decode, *transfer.prefill)]


def _reason(attempts: Sequence[Attempt]) -> str:
    """The latest attempt's reason, and a hint at earlier ones that did not go well."""
    hints = []
    if _keys_do_not_meet(attempts):
        hints.append("prefill and decode name different transfer keys: do both compute them alike?")
    bad = Counter(a.verdict for a in attempts[:-1] if a.verdict not in _UNREMARKABLE)
    if bad:
        counted = [f"{bad[verdict]} {verdict.value}" for verdict in sorted(bad, key=severity)]
        hints.append(f"attempt {attempts[-1].number}, after {join_words(counted)}")
    return " ".join([attempts[-1].reason, *(f"({hint})" for hint in hints)])


def _keys_do_not_meet(attempts: Sequence[Attempt]) -> bool:
    """Whether one attempt lacks decode for good and another prefill: most likely they are one."""
    if len(attempts) < 2:
        return False
    transfers = [transfer for attempt in attempts for transfer in attempt.transfers]
    return any(t.verdict is Verdict.missing_decode and not t.decode_workers for t in transfers) and any(
        t.verdict is Verdict.missing_prefill and not t.prefill_workers for t in transfers
    )


def _components(transfers: Sequence[TransferVerdict]) -> list[ComponentVerdict]:
    """One verdict a component name, the worst over the transfers."""
    if len(transfers) == 1:
        return transfers[0].components
    found: dict[str, ComponentVerdict] = {}
    for transfer in transfers:
        for component in transfer.components:
            known = found.get(component.component)
            if known is None or severity(component.verdict) < severity(known.verdict):
                found[component.component] = component
    return [found[name] for name in sorted(found)]


def _not_covered(transfers: Sequence[TransferVerdict]) -> list[str]:
    """What the exoneration of a room leaves open: what that of any of its transfers does."""
    if not all(transfer.exonerated for transfer in transfers):
        return []
    return list(dict.fromkeys(gap for transfer in transfers for gap in transfer.not_covered))


def _earliest(judged: Iterable[JudgedTransfer]) -> float | None:
    return min((j.deadline for j in judged if j.deadline is not None), default=None)


def _join_delay(draft: Draft) -> float | None:
    """Seconds by which the last ``receive`` came after the last ``send``; 0 if it came before."""
    entries = _entries(draft)
    sent, received = latest(entries, Stage.send), latest(entries, Stage.receive)
    return None if sent is None or received is None else max(0.0, received - sent)
