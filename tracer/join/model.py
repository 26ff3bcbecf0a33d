"""What the join is given and what it says: entries in, verdicts out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum

from msgspec import Struct

from pd_tracer_hooks.wire import Coverage, Event, Manifest, Observation, Side


class Verdict(str, Enum):
    """What is said of a room, or of one component of it. docs/verdicts.md explains each."""

    match = "match"
    mismatch = "mismatch"
    incomparable = "incomparable"
    count_mismatch = "count_mismatch"
    missing_component = "missing_component"
    missing_decode = "missing_decode"
    missing_prefill = "missing_prefill"
    ambiguous = "ambiguous"
    aborted = "aborted"
    failed = "failed"
    nothing_transferred = "nothing_transferred"
    pending = "pending"
    sampled_out = "sampled_out"
    dropped = "dropped"


#: A whole is as bad as the first of these that one of its parts has. ``pending`` stands apart: while a
#: part is pending the whole is, unless another part is already one of :data:`DECIDED_EARLY`.
PRECEDENCE = (
    Verdict.mismatch,
    Verdict.count_mismatch,
    Verdict.missing_component,
    Verdict.incomparable,
    Verdict.ambiguous,
    Verdict.failed,
    Verdict.aborted,
    Verdict.missing_prefill,
    Verdict.missing_decode,
    Verdict.dropped,
    Verdict.sampled_out,
    Verdict.match,
    Verdict.nothing_transferred,
)

#: Findings that are said at once, while other parts of the whole are still pending: waiting would not
#: take them back. All other verdicts of a whole wait for its last part.
DECIDED_EARLY = frozenset({Verdict.mismatch, Verdict.count_mismatch, Verdict.missing_component})


class Cause(str, Enum):
    """Why a mismatch came about, as far as the evidence tells."""

    unexplained = "unexplained"


@dataclass(frozen=True, slots=True)
class WorkerRef:
    """Who said something: the part of a worker's identity that the join needs."""

    id: str
    boot: str
    side: Side
    server: str


@dataclass(frozen=True, slots=True)
class Entry:
    """One record of a room, who said it, and when it came (seconds, the collector's clock)."""

    worker: WorkerRef
    received: float
    record: Observation | Event


#: Manifests by (worker id, boot id).
Manifests = Mapping[tuple[str, str], Manifest]


@dataclass(frozen=True, slots=True)
class Policy:
    """How long the join waits, in seconds by the collector's clock."""

    #: From the last ``send`` to a complete ``receive``.
    send_deadline_s: float = 180.0
    #: From ``opened`` (or ``started``) to the first ``send``.
    open_deadline_s: float = 600.0


class Where(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Where two sides differ, as closely as the sums that were sent can tell."""

    #: Regions that differ, of ``head``, ``tail``, ``body``.
    regions: list[str] = []
    #: Global layer ids that differ; empty when there were no sums per layer.
    layers: list[int] = []
    #: Runs (first page, count) that hold the difference: buckets, or regions where there were none.
    page_runs: list[tuple[int, int]] = []


class SideExtent(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What one side said of a component."""

    #: P, or None while the side has not reported the component.
    pages: int | None = None
    complete: bool = False
    signature: str = ""
    #: Finals of head, tail and body as 16 hex digits; empty until complete.
    finals: dict[str, str] = {}


class ComponentVerdict(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The verdict on one component of one transfer."""

    component: str
    verdict: Verdict
    cause: Cause | None = None
    #: One sentence for a person: which field, which counts, what was waited for.
    reason: str = ""
    #: The lesser of both sides' coverage, where something was compared.
    coverage: Coverage | None = None
    #: Layers compared, and how many layers the pools have by their manifests (0: unknown).
    layers: list[int] = []
    layers_of: int = 0
    prefill: SideExtent = SideExtent()
    decode: SideExtent = SideExtent()
    where: Where | None = None
    notes: list[str] = []


class TransferVerdict(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The verdict on one transfer: one key, one decode rank."""

    key: str
    verdict: Verdict
    cause: Cause | None = None
    reason: str = ""
    components: list[ComponentVerdict] = []
    prefill_workers: list[str] = []
    decode_workers: list[str] = []
    notes: list[str] = []


class Attempt(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The transfers that one decode server opened for one request."""

    number: int
    verdict: Verdict
    cause: Cause | None = None
    reason: str = ""
    #: Names as reported; empty where that side never spoke (its alias, if the other side named one).
    prefill_server: str = ""
    decode_server: str = ""
    request_prefill: str = ""
    request_decode: str = ""
    transfers: list[TransferVerdict] = []


class RoomVerdict(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The verdict on a room: that of its latest attempt."""

    verdict: Verdict
    cause: Cause | None = None
    reason: str = ""
    #: Nothing that is still expected can change it (a late or repeated report still may).
    settled: bool
    #: When time alone would change it (collector's clock), or None.
    deadline: float | None = None
    attempts: list[Attempt] = []
    #: Components of the latest attempt, the worst verdict over its transfers for each name.
    components: list[ComponentVerdict] = []
    trace: str = ""
    #: Seconds from the latest ``send`` to the latest ``receive`` reaching the collector, once both have.
    join_delay_s: float | None = None
