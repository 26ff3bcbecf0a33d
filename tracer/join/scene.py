"""Everything about one transfer that the verdict on one of its components may depend on."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from msgspec import Struct

from pd_tracer_hooks.wire import Event, EventKind, Observation, Side, Stage
from tracer.join.expected import SideManifest
from tracer.join.model import AnyEntry, Donor, Donors, Entry, Manifests, Policy
from tracer.join.order import by_worker
from tracer.join.parts import SideSum, add_up, gather
from tracer.join.patience import Patience, patience
from tracer.join.told import Told, told_by
from tracer.join.transfers import Transfer, is_beside, is_look
from tracer.join.wording import workers_text

NO_DONORS: Donors = {}


class Scene(Struct, frozen=True):
    """One transfer, ready to be judged."""

    prefill_entries: Sequence[Entry]
    decode_entries: Sequence[Entry]
    prefill_workers: list[str]
    decode_workers: list[str]
    #: Parts added up, by component.
    prefill: Mapping[str, SideSum]
    decode: Mapping[str, SideSum]
    prefill_manifest: SideManifest
    decode_manifest: SideManifest
    told: list[Told]
    waiting: Patience
    #: Whether the deadline has passed.
    expired: bool
    #: Whether decode has completed all that it reports.
    received: bool
    #: Whether both sides have completed, over the same layers, every component that both report.
    agreed: bool
    #: Prefill workers that retracted the request and sent it again.
    sent_again: list[str]
    #: Page digests that may belong to the looks of this transfer.
    details: Sequence[AnyEntry]
    #: Rooms whose bytes may be in a component's pages, by component.
    donors: Mapping[str, Sequence[Donor]]
    #: Components that were looked at beside their first send and receive.
    beside: frozenset[str]

    @property
    def prefill_who(self) -> str:
        """Prefill and its workers, as a sentence names them."""
        return workers_text("prefill", self.prefill_workers)

    @property
    def decode_who(self) -> str:
        """Decode and its workers, as a sentence names them."""
        return workers_text("decode", self.decode_workers)

    def completed(self, side: Side) -> list[str]:
        """Components that a side has completed."""
        sums = self.prefill if side is Side.prefill else self.decode
        return sorted(name for name, side_sum in sums.items() if side_sum.complete)


def scene_of(
    transfer: Transfer, manifests: Manifests, policy: Policy, now: float, donors: Donors = NO_DONORS
) -> Scene:
    """Add up a transfer's parts and gather what else is known of it."""
    prefill_entries, decode_entries = transfer.prefill, transfer.decode
    sends, sent_again = _standing_sends(prefill_entries)
    receives = [entry for entry in decode_entries if is_look(entry, Stage.receive)]
    prefill = {name: add_up("prefill", parts) for name, parts in gather(sends).items()}
    decode = {name: add_up("decode", parts) for name, parts in gather(receives).items()}
    prefill_sources, decode_sources = _sources(prefill_entries), _sources(decode_entries)
    waiting = _patience(transfer, policy)
    return Scene(
        prefill_entries=prefill_entries,
        decode_entries=decode_entries,
        prefill_workers=sorted({worker for worker, _ in prefill_sources}),
        decode_workers=sorted({worker for worker, _ in decode_sources}),
        prefill=prefill,
        decode=decode,
        prefill_manifest=SideManifest(prefill_sources, manifests),
        decode_manifest=SideManifest(decode_sources, manifests),
        told=told_by([*prefill_entries, *decode_entries]),
        waiting=waiting,
        expired=now >= waiting.deadline,
        received=bool(decode) and all(side.complete for side in decode.values()),
        agreed=_agreed(prefill, decode),
        sent_again=sent_again,
        details=transfer.details,
        donors={name: found for (key, name), found in donors.items() if key == transfer.key},
        beside=_beside(prefill_entries, decode_entries),
    )


def _beside(*sides: Sequence[Entry]) -> frozenset[str]:
    return frozenset(
        component.name
        for entries in sides
        for entry in entries
        if is_beside(entry) and isinstance(entry.record, Observation)
        for component in entry.record.components
    )


def _patience(transfer: Transfer, policy: Policy) -> Patience:
    """How long the transfer is waited for: as long as any of those that its unplaced sends may belong to."""
    waiting = patience(transfer.prefill, transfer.decode, policy)
    for rival in transfer.rivals:
        for prefill in (rival.prefill, [*rival.prefill, *rival.unplaced]):
            theirs = patience(prefill, rival.decode, policy)
            waiting = max(waiting, theirs, key=lambda one: one.deadline)
    return waiting


def _sources(entries: Iterable[Entry]) -> set[tuple[str, str]]:
    return {(entry.worker.id, entry.worker.boot) for entry in entries}


def _agreed(prefill: Mapping[str, SideSum], decode: Mapping[str, SideSum]) -> bool:
    common = [(prefill[name], decode[name]) for name in prefill if name in decode]
    return bool(common) and all(
        ours.complete and theirs.complete and ours.layers == theirs.layers for ours, theirs in common
    )


def _standing_sends(prefill: Sequence[Entry]) -> tuple[list[Entry], list[str]]:
    """The sends that count: those before a worker's ``retracted`` do not once it has sent again."""
    sends = [entry for entry in prefill if is_look(entry, Stage.send)]
    retracted = [entry for entry in prefill if _is_retraction(entry)]
    if not retracted:
        return sends, []
    replaced: set[int] = set()
    again: set[str] = set()
    for mine in by_worker([*sends, *retracted]).values():
        last = max((i for i, entry in enumerate(mine) if _is_retraction(entry)), default=-1)
        if -1 < last < len(mine) - 1:
            replaced.update(id(entry) for entry in mine[:last])
            again.add(mine[0].worker.id)
    return [entry for entry in sends if id(entry) not in replaced], sorted(again)


def _is_retraction(entry: Entry) -> bool:
    return isinstance(entry.record, Event) and entry.record.kind is EventKind.retracted
