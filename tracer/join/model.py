"""What the join is given and what it says: entries in, verdicts out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Generic

from msgspec import Struct

from pd_tracer_hooks.wire import Coverage, Detail, Event, Manifest, Observation, Side

if TYPE_CHECKING:
    from typing_extensions import TypeVar

    #: What an entry holds; without saying so: an observation or an event.
    RecordT_co = TypeVar(
        "RecordT_co", bound=Observation | Event | Detail, default=Observation | Event, covariant=True
    )
else:
    from typing import TypeVar

    RecordT_co = TypeVar("RecordT_co", covariant=True)


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
    """Why a mismatch came about, as far as the evidence tells. The first whose evidence is there is said."""

    sent_early = "sent_early"
    late = "late"
    source_changed = "source_changed"
    cross_room = "cross_room"
    stale = "stale"
    zeroed = "zeroed"
    reordered = "reordered"
    overwritten = "overwritten"
    unexplained = "unexplained"


class Shape(str, Enum):
    """How the pages that differ lie in the transfer."""

    whole = "whole"
    early_run = "early_run"
    tail_run = "tail_run"
    one_run = "one_run"
    #: Runs of equal length at equal distances.
    stride = "stride"
    scattered = "scattered"
    one_cell = "one_cell"


@dataclass(frozen=True, slots=True)
class WorkerRef:
    """Who said something: the part of a worker's identity that the join needs."""

    id: str
    boot: str
    side: Side
    server: str


@dataclass(frozen=True, slots=True)
class Entry(Generic[RecordT_co]):
    """One record of a room, who said it, and when it came (seconds, the collector's clock).

    :func:`~tracer.join.judge` takes details among its entries. They are evidence for the observations they
    belong to, which the join finds by itself: nothing but the sums says which observation that is.
    """

    worker: WorkerRef
    received: float
    record: RecordT_co


AnyEntry = Entry[Observation | Event | Detail]


#: Manifests by (worker id, boot id).
Manifests = Mapping[tuple[str, str], Manifest]


@dataclass(frozen=True, slots=True)
class Policy:
    """How long the join waits, in seconds by the collector's clock."""

    #: From the last ``send`` to a complete ``receive``.
    send_deadline_s: float = 180.0
    #: From ``opened`` (or ``started``) to the first ``send``.
    open_deadline_s: float = 600.0


class How(str, Enum):
    """What a donor is named by."""

    #: Its pages' digests were found in the victim's pages.
    digests = "digests"
    #: It held those physical pages; what was in them is not known.
    held = "held"


class Donor(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Another room whose bytes may be in a component's pages: evidence that is not in the room's own records.

    ``page_runs`` and ``layers`` say where, in the *victim's* ordinals (no layers: in all of them).
    """

    room: str
    how: How
    page_runs: list[tuple[int, int]]
    layers: list[int] = []
    #: The donor's transfer key.
    key: str = ""
    #: When it held the pages, in seconds by the decode worker's clock, where known.
    held_from: float | None = None
    held_until: float | None = None


#: Donors by (transfer key, component) of the victim.
Donors = Mapping[tuple[str, str], Sequence[Donor]]


class LayerPages(Struct, frozen=True, kw_only=True):
    """Runs (first page, count) of one layer."""

    layer: int
    runs: list[tuple[int, int]]


# Verdicts are trees, which counting references frees: the cycle collector need not know them (``gc``).


class Where(Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """Where two sides differ, as closely as the sums that were sent can tell."""

    #: Regions that differ, of ``head``, ``tail``, ``body``.
    regions: list[str] = []
    #: Global layer ids that differ; empty when there were no sums per layer.
    layers: list[int] = []
    #: Runs (first page, count) that hold the difference: buckets, or regions where there were none.
    page_runs: list[tuple[int, int]] = []
    #: The very cells, layer by layer, once both sides' page digests are here; else empty.
    cells: list[LayerPages] = []
    #: Runs that ``cells`` leaves out because there are too many.
    cells_left_out: int = 0


class Comparison(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Two looks held against each other, over the places in question: how many of them came out how.

    Looks are named by stage, repeated ones with their number: ``send``, ``recheck 1``.
    """

    look: str
    against: str
    equal: int = 0
    different: int = 0
    #: Places at which one of the two was not read, or not closely enough.
    unknown: int = 0


class Evidence(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a component's verdict rests on beside the sums of ``send`` and ``receive``."""

    #: What was classified one by one: ``cell``, ``bucket``, ``layer`` or ``region``.
    unit: str
    #: How many of them differ, and how many of these have which cause.
    units: int
    causes: dict[str, int] = {}
    comparisons: list[Comparison] = []
    #: What was not observed, and what therefore cannot be told. One sentence each.
    missing: list[str] = []


class Timing(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Since when a component was right (late) or wrong (overwritten): seconds by decode's own clock."""

    #: The first look that shows it.
    look: str
    #: From the read at ``receive`` to that look.
    after_receive_s: float
    #: From the engine's signal that the transfer was done to that look, where the worker saw the signal.
    after_signal_s: float | None = None
    #: The last look before it, and its time after ``receive``.
    before: str = "receive"
    before_s: float = 0.0


class SideExtent(Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """What one side said of a component."""

    #: P, or None while the side has not reported the component.
    pages: int | None = None
    complete: bool = False
    signature: str = ""
    #: Finals of head, tail and body as 16 hex digits; empty until complete.
    finals: dict[str, str] = {}


class ComponentVerdict(Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
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
    shape: Shape | None = None
    #: Pages at which a run of differing pages ends (or begins) where one of prefill's chunks does.
    chunk_edges: list[int] = []
    evidence: Evidence | None = None
    timing: Timing | None = None
    donors: list[Donor] = []
    #: Pages, as runs, that are right only in part, next to a run of stale or zeroed ones.
    boundary: list[tuple[int, int]] = []
    #: Looks beside ``send`` and ``receive`` that were compared, and all of them equal.
    also_equal: list[str] = []


class TransferVerdict(Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """The verdict on one transfer: one key, one decode rank."""

    key: str
    verdict: Verdict
    cause: Cause | None = None
    reason: str = ""
    components: list[ComponentVerdict] = []
    prefill_workers: list[str] = []
    decode_workers: list[str] = []
    notes: list[str] = []
    #: The transfer cannot be the cause: everything both pools have was compared in full and found equal.
    exonerated: bool = False
    #: What that does not speak of; empty unless exonerated.
    not_covered: list[str] = []


class Attempt(Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
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


class RoomVerdict(Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
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
    #: All transfers of the latest attempt are exonerated, see :class:`TransferVerdict`.
    exonerated: bool = False
    not_covered: list[str] = []
