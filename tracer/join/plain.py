"""The short way to the commonest verdicts: one transfer, one whole part a side and component, all well.

Nearly every room is like this: one key, one ``send``, one ``receive``, perhaps an ``opened``. Such a room
either waits for its other side or is a match, and both can be said without drafts, rounds and spans.
Whatever is unusual in the least is answered with None and goes the general way, which alone finds fault.
Both ways must say exactly the same: a property test holds them against each other.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from itertools import pairwise

from msgspec import Struct

from pd_tracer_hooks.wire import (
    ComponentDigest,
    Coverage,
    Event,
    EventKind,
    Manifest,
    Observation,
    Owned,
    Run,
    Side,
    Stage,
)
from tracer.join import intervals
from tracer.join.compare import finals
from tracer.join.component import equal_text
from tracer.join.exoneration import not_covered
from tracer.join.expected import SideManifest, expected_names, layers_held
from tracer.join.model import (
    Attempt,
    ComponentVerdict,
    Entry,
    Manifests,
    Policy,
    RoomVerdict,
    SideExtent,
    TransferVerdict,
    Verdict,
)
from tracer.join.parts import REGIONS, SUMS
from tracer.join.transfer import reason_of
from tracer.join.unfinished import only_received, only_sent
from tracer.join.wording import workers_text

#: Head and tail: what is compared at coverage ``ends``.
_ENDS_BYTES = 16
_NOTHING = SideExtent()
#: Records of a plain room, at most.
MAX_ENTRIES = 3


class _Looks(Struct, gc=False):
    """The entries of a plain room by what they are, and what was seen."""

    opened: Entry | None = None
    send: Entry | None = None
    receive: Entry | None = None
    sent: Observation | None = None
    received: Observation | None = None


def judge_plain(
    entries: Sequence[Entry], manifests: Manifests, policy: Policy, now: float
) -> RoomVerdict | None:
    """What :func:`tracer.join.room.judge` says of a plain room; None for any other."""
    looks = _looks(entries)
    if looks is None:
        return None
    send, receive = looks.send, looks.receive
    deadline = None
    if send is None or receive is None:
        deadline = max(entry.received for entry in (send, receive) if entry is not None)
        deadline += policy.send_deadline_s
        if now >= deadline:
            return None
    decode = receive or looks.opened
    expected = _expected(_manifest(send, manifests), _manifest(decode, manifests))
    components = _components(looks, expected)
    if components is None or not expected.names.issubset([part.component for part in components]):
        return None
    known = expected.prefill is not None and expected.decode is not None
    exonerable = known and deadline is None
    gaps = not_covered(components, manifests=known, start=_start(looks)) if exonerable else None
    return _room(looks, decode, components, deadline, gaps)


def _start(looks: _Looks) -> int:
    """Page of the sequence at which the transfer starts."""
    return max(
        part.start for look in (looks.sent, looks.received) if look is not None for part in look.components
    )


def _looks(entries: Sequence[Entry]) -> _Looks | None:
    if len(entries) > MAX_ENTRIES:
        return None
    looks = _Looks()
    keys: list[str] | None = None
    for entry in entries:
        record, side = entry.record, entry.worker.side
        if len(record.keys) != 1 or (keys is not None and record.keys != keys):
            return None
        keys = record.keys
        if isinstance(record, Event) and record.kind is EventKind.opened:
            if side is not Side.decode or looks.opened is not None:
                return None
            looks.opened = entry
        elif not isinstance(record, Observation) or record.look:
            return None
        elif record.stage is Stage.send and side is Side.prefill and looks.send is None:
            looks.send, looks.sent = entry, record
        elif record.stage is Stage.receive and side is Side.decode and looks.receive is None:
            looks.receive, looks.received = entry, record
        else:
            return None
    if looks.send is None and looks.receive is None:
        return None
    return looks if _one_opening(looks.opened, looks.receive) else None


def _one_opening(opened: Entry | None, receive: Entry | None) -> bool:
    """Whether what decode said is the beginning and the end of one opening."""
    if opened is None or receive is None:
        return True
    return (
        opened.worker == receive.worker
        and opened.record.seq < receive.record.seq
        and opened.record.request == receive.record.request
    )


class _Expected(Struct, frozen=True):
    """What two manifests say together. They are kept, so that their ids stay theirs."""

    prefill: Manifest | None
    decode: Manifest | None
    #: Components that must be accounted for.
    names: frozenset[str]
    #: How many layers the pools have of each component.
    layers: Mapping[str, int]


_UNKNOWN = _Expected(None, None, frozenset(), {})
_MAX_EXPECTED = 4096
_expectations: dict[tuple[int, int], _Expected] = {}


def _manifest(entry: Entry | None, manifests: Manifests) -> Manifest | None:
    return manifests.get((entry.worker.id, entry.worker.boot)) if entry is not None else None


def _expected(prefill: Manifest | None, decode: Manifest | None) -> _Expected:
    if prefill is None and decode is None:
        return _UNKNOWN
    key = id(prefill), id(decode)
    known = _expectations.get(key)
    if known is None:
        ours, theirs = _side_manifest(prefill), _side_manifest(decode)
        layers = {name: layers_held(name, ours, theirs) for name in (*ours.names, *theirs.names)}
        known = _Expected(prefill, decode, frozenset(expected_names(ours, theirs)), layers)
        if len(_expectations) >= _MAX_EXPECTED:
            _expectations.clear()
        _expectations[key] = known
    return known


def _side_manifest(manifest: Manifest | None) -> SideManifest:
    """One worker's; of a worker that has sent none, or that has not spoken, nothing is known."""
    return SideManifest([("", "")] if manifest is not None else [], {("", ""): manifest} if manifest else {})


def _components(looks: _Looks, expected: _Expected) -> list[ComponentVerdict] | None:
    """The verdicts on the components by name, or None where one is not plain."""
    if looks.sent is None:
        assert looks.receive is not None
        assert looks.received is not None
        said = only_received(workers_text("decode", [looks.receive.worker.id]))
        return _waiting(looks.received, said, expected, sent=False)
    if looks.received is None:
        assert looks.send is not None
        receivers = [looks.opened.worker.id] if looks.opened is not None else []
        said = only_sent(workers_text("prefill", [looks.send.worker.id]), workers_text("decode", receivers))
        return _waiting(looks.sent, said, expected, sent=True)
    return _matches(looks.sent, looks.received, expected)


def _by_name(look: Observation) -> list[ComponentDigest] | None:
    """The parts in the order of their names, or None where a name is empty or stands there twice."""
    parts = look.components
    if len(parts) > 1:
        parts = sorted(parts, key=_name)
        if any(one.name == other.name for one, other in pairwise(parts)):
            return None
    return parts if parts and parts[0].name else None


def _name(part: ComponentDigest) -> str:
    return part.name


def _whole(part: ComponentDigest) -> list[int] | None:
    """The layers, sorted, of a part that is all of its component and as it should be; else None."""
    pages, k, cells = part.pages, part.k, part.cells
    if part.owned is Owned.no or len(part.sums) != SUMS.size or len(cells) != len(REGIONS):
        return None
    layers = _sorted(tuple(part.layers))
    ends = len(layers) * min(k, pages)
    if not layers or cells[0] != ends or cells[1] != ends:
        return None
    if part.coverage is Coverage.full and cells[2] != len(layers) * pages:
        return None
    runs = part.runs
    at_once = len(runs) == 1 and runs[0][0] == 0 and runs[0][1] >= pages
    return layers if at_once or _covered(tuple(runs), pages, k, part.coverage) else None


@lru_cache(maxsize=1024)
def _sorted(layers: tuple[int, ...]) -> list[int]:
    return sorted(set(layers))


@lru_cache(maxsize=8192)
def _covered(runs: tuple[Run, ...], pages: int, k: int, coverage: Coverage) -> bool:
    return intervals.covers(intervals.from_runs(runs), intervals.needed(pages, k, coverage))


def _extent(part: ComponentDigest) -> SideExtent:
    return SideExtent(
        pages=part.pages,
        complete=True,
        signature=part.signature,
        finals=finals(SUMS.unpack(part.sums), part.cells, part.coverage),
    )


def _matches(send: Observation, receive: Observation, expected: _Expected) -> list[ComponentVerdict] | None:
    ours, theirs = _by_name(send), _by_name(receive)
    if ours is None or theirs is None or len(ours) != len(theirs):
        return None
    if _disagree(send.tokens, receive.tokens):
        return None
    verdicts = []
    for mine, other in zip(ours, theirs, strict=True):
        layers = _whole(mine)
        if layers is None or not _alike(mine, other):
            return None
        extent = _extent(mine)
        verdicts.append(
            ComponentVerdict(
                component=mine.name,
                verdict=Verdict.match,
                reason=_equal_text(mine.pages, mine.k, len(layers), mine.coverage),
                coverage=mine.coverage,
                layers=layers,
                layers_of=expected.layers.get(mine.name, 0),
                prefill=extent,
                decode=extent,
            )
        )
    return verdicts


_equal_text = lru_cache(maxsize=8192)(equal_text)


def _alike(mine: ComponentDigest, other: ComponentDigest) -> bool:
    """Whether ``other`` is the same part as ``mine``, which is whole, and what is compared is equal."""
    compared = SUMS.size if mine.coverage is Coverage.full else _ENDS_BYTES
    return (
        mine.name == other.name
        and mine.signature == other.signature
        and mine.pages == other.pages
        and mine.k == other.k
        and mine.coverage is other.coverage
        and other.owned is not Owned.no
        and len(other.sums) == SUMS.size
        and mine.sums[:compared] == other.sums[:compared]
        and mine.cells == other.cells
        and mine.runs == other.runs
        and mine.layers == other.layers
        and not _disagree(mine.last_rows, other.last_rows)
        and not _disagree(mine.start or None, other.start or None)
    )


def _disagree(one: int | None, other: int | None) -> bool:
    return one != other and one is not None and other is not None


def _waiting(
    look: Observation, said: str, expected: _Expected, *, sent: bool
) -> list[ComponentVerdict] | None:
    """The verdicts when one side alone has spoken."""
    parts = _by_name(look)
    if parts is None:
        return None
    verdicts = []
    for part in parts:
        if _whole(part) is None:
            return None
        extent = _extent(part)
        verdicts.append(
            ComponentVerdict(
                component=part.name,
                verdict=Verdict.pending,
                reason=said,
                layers_of=expected.layers.get(part.name, 0),
                prefill=extent if sent else _NOTHING,
                decode=_NOTHING if sent else extent,
            )
        )
    return verdicts


def _room(
    looks: _Looks,
    decode: Entry | None,
    components: list[ComponentVerdict],
    deadline: float | None,
    gaps: list[str] | None,
) -> RoomVerdict:
    send, receive = looks.send, looks.receive
    verdict = components[0].verdict
    reason = reason_of(components, verdict)
    speakers = [entry for entry in (looks.opened, receive, send) if entry is not None]
    prefill_peer = send.record.peer if send is not None else ""
    transfer = TransferVerdict(
        key=speakers[0].record.keys[0],
        verdict=verdict,
        reason=reason,
        components=components,
        prefill_workers=[send.worker.id] if send is not None else [],
        decode_workers=[decode.worker.id] if decode is not None else [],
        exonerated=gaps is not None,
        not_covered=gaps or [],
    )
    attempt = Attempt(
        number=1,
        verdict=verdict,
        reason=reason,
        prefill_server=(send.worker.server if send is not None else "") or _peer(looks.opened, receive),
        decode_server=(decode.worker.server if decode is not None else "") or prefill_peer,
        request_prefill=send.record.request if send is not None else "",
        request_decode=decode.record.request if decode is not None else "",
        transfers=[transfer],
    )
    return RoomVerdict(
        verdict=verdict,
        reason=reason,
        settled=deadline is None,
        deadline=deadline,
        attempts=[attempt],
        components=components,
        trace=next((entry.record.trace for entry in speakers if entry.record.trace), ""),
        join_delay_s=(
            max(0.0, receive.received - send.received) if send is not None and receive is not None else None
        ),
        exonerated=gaps is not None,
        not_covered=gaps or [],
    )


def _peer(*decode: Entry | None) -> str:
    return min((entry.record.peer for entry in decode if entry is not None and entry.record.peer), default="")
