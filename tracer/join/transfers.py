"""A transfer while its entries are being put together: who opened it, what belongs to it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from pd_tracer_hooks.wire import Event, EventKind, Observation, Stage
from tracer.join.model import AnyEntry, Entry
from tracer.join.order import Moment

#: Decode records after which the worker no longer waits for the transfer.
_ENDS = frozenset(
    {
        EventKind.aborted,
        EventKind.failed,
        EventKind.retracted,
        EventKind.freed,
        EventKind.nothing_transferred,
    }
)


def is_look(entry: Entry, stage: Stage) -> bool:
    """Whether the entry is the first look at ``stage``: the only one that is compared."""
    record = entry.record
    return isinstance(record, Observation) and record.stage is stage and record.look == 0


def is_beside(entry: Entry) -> bool:
    """Whether an entry is an observation other than the first ``send`` or ``receive``."""
    record = entry.record
    return isinstance(record, Observation) and (
        record.look > 0 or record.stage not in (Stage.send, Stage.receive)
    )


def ends(entry: Entry) -> bool:
    """Whether a decode record says that its transfer is over."""
    record = entry.record
    if isinstance(record, Event):
        return record.kind in _ENDS
    return record.stage is Stage.receive


@dataclass(slots=True, eq=False)
class Opening:
    """One decode worker's part in one transfer: its ``opened``, or what stands for a lost one."""

    worker: str
    boot: str
    server: str
    key: str
    request: str
    moment: Moment
    #: How many attempts of the same request this worker began before.
    round: int = 0
    entries: list[Entry] = field(default_factory=list)

    @property
    def ended_by(self) -> int | None:
        """``seq`` of the first record that ended it, or None while it is open."""
        return min((entry.record.seq for entry in self.entries if ends(entry)), default=None)

    @property
    def received(self) -> bool:
        """Whether a ``receive`` came."""
        return any(is_look(entry, Stage.receive) for entry in self.entries)


@dataclass(slots=True, eq=False)
class Transfer:
    """One key of one attempt with everything that belongs to it."""

    key: str
    openings: list[Opening] = field(default_factory=list)
    prefill: list[Entry] = field(default_factory=list)
    #: Page digests of this side's or that side's looks, here or at another transfer with the same key.
    details: list[AnyEntry] = field(default_factory=list)
    #: Sends that may belong here or to another transfer of the room.
    unplaced: list[Entry] = field(default_factory=list)
    #: The transfers, this one among them, that the unplaced sends may belong to.
    rivals: list[Transfer] = field(default_factory=list)
    #: Why sends could not be placed; empty when all were.
    doubt: str = ""
    #: Whether more records may still remove the doubt.
    doubt_may_pass: bool = False

    @property
    def decode(self) -> list[Entry]:
        """The decode side's entries."""
        if len(self.openings) == 1:
            return self.openings[0].entries
        return [entry for opening in self.openings for entry in opening.entries]

    @property
    def sent(self) -> bool:
        """Whether a ``send`` was placed here."""
        return any(is_look(entry, Stage.send) for entry in self.prefill)

    @property
    def expects_send(self) -> bool:
        """Whether decode waits for bytes at all."""
        return not any(
            isinstance(entry.record, Event)
            and entry.record.kind in (EventKind.nothing_transferred, EventKind.sampled_out)
            and not entry.record.component
            for entry in self.decode
        )


def leave_open(transfers: Sequence[Transfer], sends: Sequence[Entry], why: str, *, may_pass: bool) -> None:
    """Note sends that cannot be told to belong to one of ``transfers``.

    A transfer's first doubt that will not pass is the one that is kept.
    """
    for transfer in transfers:
        transfer.unplaced += sends
        transfer.rivals = list(transfers)
        if not transfer.doubt or (transfer.doubt_may_pass and not may_pass):
            transfer.doubt, transfer.doubt_may_pass = why, may_pass


@dataclass(slots=True, eq=False)
class Draft:
    """An attempt while it is put together."""

    moment: Moment
    transfers: dict[str, Transfer] = field(default_factory=dict)
    decode_server: str = ""
    request_decode: str = ""
