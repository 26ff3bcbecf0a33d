"""The wire contract: what a worker posts to ``/v1/reports`` and what it is answered.

One set of structs for msgpack and JSON. Fields that are not known are ignored; a field may be added
in any release with a default, and none changes its meaning. docs/wire.md explains each for people.
This module knows nothing of how the values are made or judged.
"""

from __future__ import annotations

from enum import Enum
from typing import Annotated, Any

import msgspec
from msgspec import Meta, Struct

from pd_tracer_hooks.u64s import U64s
from pd_tracer_hooks.version import WIRE_VERSION

#: A collector understands hooks this many minor releases older and newer than itself.
OLDER_MINORS, NEWER_MINORS = 2, 1

JSON = "application/json"
MSGPACK = "application/msgpack"

MAX_PAGES = 1 << 24
MAX_LAYERS = 1024

Text = Annotated[str, Meta(max_length=256)]
Name = Annotated[str, Meta(min_length=1, max_length=256)]
LongText = Annotated[str, Meta(max_length=4096)]
#: A room: text outside the worker, whatever the engine's own type is.
RoomId = Annotated[str, Meta(min_length=1, max_length=512)]
#: A 64-bit hash as 16 lower-case hex digits.
Hex64 = Annotated[str, Meta(pattern="^[0-9a-f]{16}$")]
Count = Annotated[int, Meta(ge=0, le=1 << 53)]
Pages = Annotated[int, Meta(ge=0, le=MAX_PAGES)]
LayerId = Annotated[int, Meta(ge=0, lt=1 << 16)]
#: Seconds since the epoch by the worker's own clock.
Seconds = Annotated[float, Meta(ge=0, le=1e11)]
#: (first, count): a run of consecutive pages.
Run = tuple[Pages, Pages]


class Side(str, Enum):
    """Which side of the transfer a worker is on."""

    prefill = "prefill"
    decode = "decode"


class Stage(str, Enum):
    """The moment of an observation. See docs/wire.md for what each stands for."""

    send = "send"
    release = "release"
    allocate = "allocate"
    receive = "receive"
    recheck = "recheck"
    admit = "admit"
    load = "load"
    read = "read"


class Coverage(str, Enum):
    """How much was read: only head and tail, or every page."""

    ends = "ends"
    full = "full"


class Owned(str, Enum):
    """Whether the pages still belonged to the room when they were read."""

    yes = "yes"
    no = "no"
    unknown = "unknown"


class EventKind(str, Enum):
    """What happened to a room, without a digest."""

    opened = "opened"
    started = "started"
    aborted = "aborted"
    failed = "failed"
    retracted = "retracted"
    nothing_transferred = "nothing_transferred"
    sampled_out = "sampled_out"
    dropped = "dropped"
    freed = "freed"
    #: The engine's own checksum of the request was compared; the reason says what came of it.
    checked = "checked"


class HooksState(str, Enum):
    """What the hooks of a worker are doing."""

    active = "active"
    dormant = "dormant"
    detached = "detached"


class FindingKind(str, Enum):
    """What a canary or a load watch saw. See docs/canary.md for what each stands for."""

    unexpected_page_write = "unexpected_page_write"
    expected_page_unwritten = "expected_page_unwritten"
    #: Padded rows wrote their page (page 0): neither hidden nor counted as aliasing.
    padding_write = "padding_write"
    #: An expected page was written with other values than an eager run of the same step.
    value_mismatch = "value_mismatch"
    #: A layer was read before its load from another tier was done.
    early_read = "early_read"


# Records are trees: counting references frees them, and the cycle collector need not walk the thousands
# that a collector remembers.
class _Record(Struct, omit_defaults=True, frozen=True, gc=False):
    pass


class Worker(_Record, kw_only=True, frozen=True):
    """Who reports: one rank of one engine instance, in one life of its process."""

    id: Name
    #: Changes with every start of the process; with ``seq`` it makes a record unique.
    boot: Name
    deployment: Name
    side: Side
    #: The engine instance that this rank belongs to. A pair is prefill server x decode server.
    server: Name
    rank: Annotated[int, Meta(ge=0, lt=1 << 20)] = 0
    model: Text = ""
    host: Text = ""
    node: Text = ""
    pod: Text = ""
    gpu: Text = ""
    nic: Text = ""
    engine: Text = ""
    engine_version: Text = ""
    hooks_version: Text = ""
    fingerprint: Text = ""
    config_hash: Text = ""
    #: The operator's label set, such as ``kv=bf16,graph=on``.
    run: Text = ""
    #: Names by which peers call this worker's server: bootstrap address, session or agent names.
    aliases: Annotated[list[Name], Meta(max_length=64)] = []


class ComponentDigest(_Record, kw_only=True, frozen=True):
    """One component's part of an observation: raw sums over the declared layers x pages."""

    name: Name
    signature: Hex64
    #: P: pages of the whole transfer, as this side counts them.
    pages: Pages
    #: k: pages in the head and in the tail region.
    k: Annotated[int, Meta(ge=0, le=1 << 16)]
    coverage: Coverage
    #: Global ids of the layers digested here.
    layers: Annotated[list[LayerId], Meta(max_length=MAX_LAYERS)]
    #: Ordinals of the pages digested here.
    runs: Annotated[list[Run], Meta(max_length=4096)]
    #: Whether this part holds the transfer's last page.
    last: bool = True
    #: Raw cell sums of head, tail and body. The body is 0 at coverage ``ends``.
    sums: U64s
    #: Number of cells in each of ``sums``.
    cells: Annotated[list[Count], Meta(min_length=3, max_length=3)]
    #: Raw cell sums of the body's buckets (only at ``full``), or empty.
    buckets: U64s = U64s()
    #: Raw row sums of head, tail and body for each layer in order, or empty.
    layer_sums: U64s = U64s()
    #: Logical page in the sequence at which the transfer starts (pages before it were held already).
    start: Pages = 0
    #: Valid rows of the last page, where this side knows it.
    last_rows: Count | None = None
    owned: Owned = Owned.unknown
    #: Physical pages in this worker, as evidence only.
    physical: Annotated[list[Run], Meta(max_length=4096)] = []


class Observation(_Record, kw_only=True, frozen=True):
    """One look of one worker at one room: at one stage, for kv one chunk."""

    room: RoomId
    #: Transfer keys that this look serves. Empty where the side does not know one.
    keys: Annotated[list[Hex64], Meta(max_length=256)] = []
    stage: Stage
    #: 0, or the number of the repeated look at the same stage.
    look: Annotated[int, Meta(ge=0, le=255)] = 0
    #: Rises with every record that the worker makes in this boot.
    seq: Count
    at: Seconds
    #: When the engine signalled that the transfer was done.
    signalled_at: Seconds | None = None
    request: Text = ""
    trace: Text = ""
    #: The other side's server, by one of its aliases.
    peer: Text = ""
    tokens: Count | None = None
    components: Annotated[list[ComponentDigest], Meta(min_length=1, max_length=64)]


class Event(_Record, kw_only=True, frozen=True):
    """Something that happened to a room."""

    kind: EventKind
    room: RoomId
    keys: Annotated[list[Hex64], Meta(max_length=256)] = []
    seq: Count
    at: Seconds
    request: Text = ""
    trace: Text = ""
    peer: Text = ""
    reason: LongText = ""
    #: The component concerned, or empty for all.
    component: Text = ""


class Detail(_Record, kw_only=True, frozen=True):
    """The page digests behind one component of an earlier observation, sent because they were wanted.

    ``digests`` and ``order_free`` hold layers x pages, layer after layer, pages in the order of ``runs``.
    ``gone``: the worker no longer has them (the reason says why), so nothing more will come.
    """

    room: RoomId
    keys: Annotated[list[Hex64], Meta(max_length=256)] = []
    stage: Stage
    look: Annotated[int, Meta(ge=0, le=255)] = 0
    seq: Count
    at: Seconds
    component: Name
    layers: Annotated[list[LayerId], Meta(max_length=MAX_LAYERS)] = []
    runs: Annotated[list[Run], Meta(max_length=4096)] = []
    digests: U64s = U64s()
    #: Order-free sums (M) of the same cells, where the worker has them.
    order_free: U64s = U64s()
    gone: bool = False
    reason: LongText = ""


class ManifestComponent(_Record, kw_only=True, frozen=True):
    """One component of a worker's pool."""

    name: Name
    signature: Hex64
    #: The fields that the signature was made of, so that a difference can be named.
    fields: Annotated[dict[Text, Text], Meta(max_length=64)] = {}
    layers: Annotated[list[LayerId], Meta(max_length=MAX_LAYERS)] = []
    #: Whether the transfer moves it. A component that is held and not moved is a finding.
    moved: bool = True
    memory: Text = "device"


class Setup(_Record, kw_only=True, frozen=True):
    """How the hooks stand in a worker: what they attached to, and what the worker was started with."""

    #: Functions of the engine that are hooked.
    attached: Annotated[list[Text], Meta(max_length=256)] = []
    #: Those that are not, and why.
    missing: Annotated[dict[Text, LongText], Meta(max_length=256)] = {}
    #: Hooked functions whose source is none that is known.
    changed: Annotated[list[Text], Meta(max_length=256)] = []
    #: What is not traced, and why.
    notes: Annotated[dict[Text, LongText], Meta(max_length=256)] = {}
    #: The worker's settings by name, secrets left out.
    config: Annotated[dict[Text, LongText], Meta(max_length=2048)] = {}


class Manifest(_Record, kw_only=True, frozen=True):
    """What a worker's pool has and what its transfer moves, sent once at attach."""

    seq: Count
    at: Seconds
    components: Annotated[list[ManifestComponent], Meta(max_length=64)]
    setup: Setup | None = None


class PageOwner(_Record, kw_only=True, frozen=True):
    """Whose pages a finding concerns, as the worker knew it at the replay."""

    #: Empty: pages that no room has (free ones, or a server without rooms).
    room: Annotated[str, Meta(max_length=512)] = ""
    request: Text = ""
    #: Physical pages.
    runs: Annotated[list[Run], Meta(max_length=256)] = []


class Finding(_Record, kw_only=True, frozen=True):
    """One kind of finding in one layer of one step. Pages are physical ones of this worker."""

    kind: FindingKind
    seq: Count
    at: Seconds
    #: Number of the step since the canary began, the same as in :class:`FlightStep`.
    step: Count
    #: Which runner replayed: ``decode``, ``draft``, ``prefill``; for a load the consumer's call site.
    runner: Text = ""
    component: Name
    layer: LayerId
    #: Pages concerned, as far as they were kept; ``found`` counts them all.
    pages: Annotated[list[Run], Meta(max_length=256)] = []
    found: Count
    owners: Annotated[list[PageOwner], Meta(max_length=64)] = []
    #: Pages of this layer that changed in the step, and those that it may write.
    changed: Count = 0
    expected: Count = 0
    #: Rows of the step's batch, and padded rows among what was replayed.
    batch: Count = 0
    padded: Count = 0
    #: ``digest`` or ``clone``; ``around`` or ``captured``; ``running``, ``all`` or ``free``.
    method: Text = ""
    placement: Text = ""
    scope: Text = ""
    #: Byte in the first page from which on it differs, and the greatest absolute difference, where known.
    offset: Count | None = None
    difference: float | None = None
    #: Digests of the first cell: before and after the step, or at ``load`` and at ``read``.
    digests: Annotated[list[Hex64], Meta(max_length=2)] = []
    #: For people: where it was read, what did not wait.
    note: LongText = ""


class FlightStep(_Record, kw_only=True, frozen=True):
    """One step as the flight recorder kept it."""

    step: Count
    at: Seconds
    runner: Text = ""
    batch: Count = 0
    padded: Count = 0
    #: Pages that the step may write.
    pages: Annotated[list[Run], Meta(max_length=1024)] = []
    requests: Annotated[list[Text], Meta(max_length=1024)] = []
    #: Rooms whose transfers were in flight, and loads that were running.
    transfers: Annotated[list[RoomId], Meta(max_length=1024)] = []
    loads: Annotated[list[Text], Meta(max_length=256)] = []
    stream: Text = ""


class Flight(_Record, kw_only=True, frozen=True):
    """The last steps before a finding, the oldest first."""

    seq: Count
    at: Seconds
    #: ``seq`` of the finding that made the worker send it.
    finding: Count
    steps: Annotated[list[FlightStep], Meta(max_length=64)]


class Arm(_Record, kw_only=True, frozen=True):
    """One arm of the differential mode: ``on``, ``delay`` (the same time, nothing compared), ``off``."""

    name: Name
    steps: Count = 0
    findings: Count = 0
    requests: Count = 0
    #: Requests that were said to be corrupted, where somebody says it.
    corrupted: Count = 0


class CanaryState(_Record, kw_only=True, frozen=True):
    """What the canary and the load watch have looked at since their boot: cumulative."""

    steps: Count = 0
    #: Steps, and cells in them, that were compared.
    watched: Count = 0
    cells: Count = 0
    #: Steps that were due and not compared, by reason.
    skipped: Annotated[dict[Name, Count], Meta(max_length=64)] = {}
    #: Findings by kind, also those that were not sent one by one.
    findings: Annotated[dict[Name, Count], Meta(max_length=64)] = {}
    loads: Count = 0
    reads: Count = 0
    arms: Annotated[list[Arm], Meta(max_length=8)] = []
    #: How it was set up, such as ``method=digest placement=captured layers=rotate:3``.
    setup: LongText = ""


class Heartbeat(_Record, kw_only=True, frozen=True):
    """The hooks' own state, sent also when there is nothing to report."""

    state: HooksState = HooksState.active
    uptime_s: Annotated[float, Meta(ge=0)] = 0.0
    queued: Count = 0
    faults: Count = 0
    #: None where no canary and no load watch is on.
    canary: CanaryState | None = None
    #: What ``control`` has changed for now, by name: ``sampling``, ``coverage``, ``stages``, ``dormant``.
    control: Annotated[dict[Text, Text], Meta(max_length=16)] = {}
    #: Requests that the engine itself has counted as handed over since boot, by its own books, where known.
    eligible: Count | None = None


class Report(_Record, kw_only=True, frozen=True):
    """A batch from one worker: the body of ``POST /v1/reports``."""

    #: Wire version, ``major.minor`` of the hooks' release.
    wire: Annotated[str, Meta(pattern=r"^[0-9]{1,4}\.[0-9]{1,4}$")]
    worker: Worker
    #: Names the batch in logs. Not used to recognise a repeated one: each record's own key does that.
    batch: Text = ""
    sent_at: Seconds = 0.0
    observations: list[Observation] = []
    events: list[Event] = []
    manifests: list[Manifest] = []
    #: Page digests that the collector asked for.
    details: list[Detail] = []
    #: What a canary or a load watch saw, and the steps that led to it.
    findings: list[Finding] = []
    flights: list[Flight] = []
    heartbeat: Heartbeat | None = None
    #: Records lost in this worker since its boot, by reason. Cumulative.
    drops: Annotated[dict[Name, Count], Meta(max_length=64)] = {}


class RecordKind(str, Enum):
    """Which list of a report a refused record stood in."""

    observations = "observations"
    events = "events"
    manifests = "manifests"
    details = "details"
    findings = "findings"
    flights = "flights"


class Refusal(_Record, kw_only=True, frozen=True):
    """A record that was not taken, and why."""

    kind: RecordKind
    index: int
    field: str
    reason: str


class Want(_Record, kw_only=True, frozen=True):
    """Something the collector asks a worker for, repeated in its answers until it comes or expires.

    ``kind`` is text so that a worker ignores kinds that it does not know. ``detail``: the page digests of a
    room (``stages`` empty: of all its looks). ``deep``: all stages and full coverage until ``until``
    (seconds since the epoch by the collector's clock; ``for_s`` is the same as seconds from now).
    ``control``: an operator's change until then, in ``set`` by name (see :class:`Heartbeat`).
    """

    kind: str
    room: str = ""
    keys: list[str] = []
    component: str = ""
    stages: list[str] = []
    until: float = 0.0
    for_s: float = 0.0
    set: dict[str, str] = {}


class Answer(Struct, kw_only=True, frozen=True):
    """The answer to a report. What it calls accepted is committed."""

    wire: str = WIRE_VERSION
    accepted: int = 0
    #: Records that were here already, and equal.
    duplicate: int = 0
    #: Records whose key was here already with another value. The first stays.
    conflicting: int = 0
    refused: list[Refusal] = []
    wanted: list[Want] = []


class Problem(Struct, kw_only=True, frozen=True):
    """The body of an answer that takes nothing: what is wrong, where, and the way out."""

    error: str
    field: str = ""
    hint: str = ""


def _encode_json_hook(value: Any) -> Any:
    if isinstance(value, U64s):
        return value.hex_list()
    raise TypeError(f"{type(value).__name__} has no place on the wire")


def _encode_msgpack_hook(value: Any) -> Any:
    if isinstance(value, U64s):
        return bytes(value)
    raise TypeError(f"{type(value).__name__} has no place on the wire")


def decode_hook(kind: type, value: Any) -> Any:
    """msgspec's ``dec_hook`` for the types of this contract."""
    if kind is U64s:
        return U64s.from_wire(value)
    raise TypeError(f"{kind.__name__} has no place on the wire")


json_encoder = msgspec.json.Encoder(enc_hook=_encode_json_hook)
msgpack_encoder = msgspec.msgpack.Encoder(enc_hook=_encode_msgpack_hook)


def encode(value: Any, content_type: str = MSGPACK) -> bytes:
    """Encode a struct of this module. Raises ``ValueError`` for an unknown content type."""
    if content_type == MSGPACK:
        return msgpack_encoder.encode(value)
    if content_type == JSON:
        return json_encoder.encode(value)
    raise ValueError(f"content type {content_type!r}: use {MSGPACK} or {JSON}")


def decoder(kind: Any, content_type: str = MSGPACK) -> Any:
    """A reusable decoder of ``kind``. Raises ``ValueError`` for an unknown content type."""
    if content_type == MSGPACK:
        return msgspec.msgpack.Decoder(kind, dec_hook=decode_hook)
    if content_type == JSON:
        return msgspec.json.Decoder(kind, dec_hook=decode_hook)
    raise ValueError(f"content type {content_type!r}: use {MSGPACK} or {JSON}")


def understands(theirs: str, mine: str = WIRE_VERSION) -> bool:
    """Whether a collector of wire version ``mine`` takes reports of version ``theirs``."""
    my_major, my_minor = map(int, mine.split("."))
    major, minor = map(int, theirs.split("."))
    return major == my_major and my_minor - OLDER_MINORS <= minor <= my_minor + NEWER_MINORS
