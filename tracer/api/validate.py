"""What the types of the wire cannot say: whether a record makes sense. Pure functions.

Each check raises :class:`Invalid` with the field, the value and the way out. The sizes that a record
states are checked against each other by arithmetic on its runs, never by looping over its pages.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from functools import lru_cache

from pd_tracer_hooks.digest.definition import MAX_BUCKETS
from pd_tracer_hooks.wire import (
    MAX_PAGES,
    ComponentDigest,
    Coverage,
    Detail,
    Event,
    Manifest,
    Observation,
    Report,
    Run,
    Side,
    Stage,
    Worker,
)

#: A worker's clock may be ahead of ours by this much.
FUTURE_S = 86_400.0
#: Bytes (UTF-8) of a name, of a room. Both databases index them, and PostgreSQL's index rows end at 2.7 kB.
MAX_NAME_BYTES = 256
MAX_ROOM_BYTES = 512
#: Cells in one detail: 61 layers of 16k pages.
MAX_DETAIL_CELLS = 1 << 20

#: Stages that only one side has.
_SIDE_OF = {
    Stage.send: Side.prefill,
    Stage.release: Side.prefill,
    Stage.allocate: Side.decode,
    Stage.receive: Side.decode,
    Stage.recheck: Side.decode,
    Stage.admit: Side.decode,
}
_BAD_NAME = re.compile(r"[,\x00-\x1f\x7f]")
_REGIONS = ("head", "tail", "body")


class Invalid(ValueError):  # noqa: N818 - said of the record
    """A record or an envelope that makes no sense."""

    def __init__(self, field: str, reason: str) -> None:
        super().__init__(f"{field}: {reason}")
        self.field = field
        self.reason = reason


def check_envelope(report: Report, now: float) -> None:
    """Check what stands outside the records. Raises :class:`Invalid`."""
    check_worker(report.worker)
    _check_text("batch", report.batch)
    check_time("sent_at", report.sent_at, now)
    if report.heartbeat is not None and not math.isfinite(report.heartbeat.uptime_s):
        raise Invalid(
            "heartbeat.uptime_s", f"is {report.heartbeat.uptime_s}: send a finite number of seconds"
        )
    for reason in report.drops:
        _check_name("drops", reason)


def check_worker(worker: Worker) -> None:
    """Check who reports. Raises :class:`Invalid`."""
    for field in ("id", "boot", "deployment", "server"):
        _check_name(f"worker.{field}", getattr(worker, field))
    for field in _WORKER_TEXTS:
        _check_text(f"worker.{field}", getattr(worker, field))
    for index, alias in enumerate(worker.aliases):
        _check_name(f"worker.aliases[{index}]", alias)


_WORKER_TEXTS = (
    "model",
    "host",
    "node",
    "pod",
    "gpu",
    "nic",
    "engine",
    "engine_version",
    "hooks_version",
    "fingerprint",
    "config_hash",
    "run",
)


def check_observation(record: Observation, side: Side, now: float) -> None:
    """Check an observation of a worker on ``side``. Raises :class:`Invalid`."""
    expected = _SIDE_OF.get(record.stage, side)
    if expected is not side:
        raise Invalid(
            "stage",
            f"{record.stage.value} is a {expected.value} stage, and this worker is on the {side.value} side",
        )
    _check_room_record(record, now)
    if record.signalled_at is not None:
        check_time("signalled_at", record.signalled_at, now)
    components = record.components
    for index, component in enumerate(components):
        try:
            check_component(component)
        except Invalid as error:
            raise Invalid(f"components[{index}].{error.field}", error.reason) from None
    if len(components) > 1:
        _check_distinct("components", [component.name for component in components])


def check_event(record: Event, now: float) -> None:
    """Check an event. Raises :class:`Invalid`."""
    _check_room_record(record, now)
    _check_text("reason", record.reason)
    if record.component:
        _check_component_name("component", record.component)


def check_detail(record: Detail, now: float) -> None:
    """Check page digests that were asked for. Raises :class:`Invalid`."""
    _check_room_record(record, now)
    _check_text("reason", record.reason)
    _check_component_name("component", record.component)
    if len(set(record.layers)) != len(record.layers):
        raise Invalid("layers", "names a layer twice: each global layer id once")
    _check_runs("runs", record.runs, MAX_PAGES)
    cells = len(record.layers) * sum(count for _, count in record.runs)
    if cells > MAX_DETAIL_CELLS:
        raise Invalid("runs", f"have {cells} cells with the layers: send at most {MAX_DETAIL_CELLS} at once")
    for field, sums, needed in (
        ("digests", record.digests, not record.gone),
        ("order_free", record.order_free, False),
    ):
        count = len(sums) // 8
        if count != cells and (needed or count):
            raise Invalid(field, f"has {count} values: the layers and runs have {cells} cells")


def check_manifest(record: Manifest, now: float) -> None:
    """Check a manifest. Raises :class:`Invalid`."""
    check_time("at", record.at, now)
    for index, component in enumerate(record.components):
        where = f"components[{index}]"
        _check_component_name(f"{where}.name", component.name)
        if len(set(component.layers)) != len(component.layers):
            raise Invalid(f"{where}.layers", "names a layer twice: each global layer id once")
        for name, value in component.fields.items():
            _check_text(f"{where}.fields", name)
            _check_text(f"{where}.fields[{name!r:.40}]", value)
    _check_distinct("components", [component.name for component in record.components])


def check_component(part: ComponentDigest) -> None:
    """Check that what a component digest states fits together. Raises :class:`Invalid`."""
    _check_component_name("name", part.name)
    layers = len(part.layers)
    in_a_row = layers < 2 or part.layers == _consecutive(part.layers[0], layers)
    if not in_a_row and len(set(part.layers)) != layers:
        raise Invalid("layers", "names a layer twice: each global layer id once")
    _check_runs("runs", part.runs, part.pages)
    full = part.coverage is Coverage.full
    if len(part.sums) != 24:
        raise Invalid("sums", f"has {len(part.sums) // 8} values: 3 are expected, for {', '.join(_REGIONS)}")
    buckets = len(part.buckets) // 8
    if buckets:
        expected = min(MAX_BUCKETS, part.pages)
        if not full:
            raise Invalid("buckets", f"has {buckets} values at coverage ends: buckets exist at full only")
        if buckets != expected:
            raise Invalid("buckets", f"has {buckets} values: {part.pages} pages make {expected}, or none")
    layer_sums = len(part.layer_sums) // 8
    if layer_sums and layer_sums != 3 * layers:
        raise Invalid("layer_sums", f"has {layer_sums} values: 3 for each of {layers} layers, or none")
    if not (full and whole_at_once(part, layers)):
        check_cells(part, layers, full)
    for first, count in part.physical:
        if count == 0:
            raise Invalid("physical", f"holds [{first}, 0]: leave empty runs out")


@lru_cache(maxsize=4096)
def _consecutive(first: int, count: int) -> list[int]:
    """What most lists of layers are; they are told apart from others sooner than they are gone through."""
    return list(range(first, first + count))


def whole_at_once(part: ComponentDigest, layers: int) -> bool:
    """Whether a part at full coverage has all pages in one run, and the right counts: nearly every one."""
    ends = layers * min(part.k, part.pages)
    return (
        ends > 0
        and len(part.runs) == 1
        and part.runs[0] == (0, part.pages)
        and part.cells == [ends, ends, layers * part.pages]
    )


def check_cells(part: ComponentDigest, layers: int, full: bool) -> None:
    """Check the counts of cells, and that a sum of none is 0. Raises :class:`Invalid`."""
    pages, k = part.pages, part.k
    tail = max(0, pages - k)
    in_head = in_tail = declared = 0
    for first, count in part.runs:
        end = first + count
        declared += count
        if first < k:
            in_head += min(end, k) - first
        if end > tail:
            in_tail += end - max(first, tail)
    expected = (layers * in_head, layers * in_tail, layers * declared if full else 0)
    stated = part.cells
    if stated[0] != expected[0] or stated[1] != expected[1] or stated[2] != expected[2]:
        index = next(i for i in range(3) if stated[i] != expected[i])
        raise Invalid(
            f"cells[{index}]",
            f"is {stated[index]}: {layers} layers and the declared runs have {expected[index]} cells"
            f" in {_REGIONS[index]} at coverage {part.coverage.value}",
        )
    if not (expected[0] and expected[1] and expected[2]):
        for index, value in enumerate(part.sums.values()):
            if value and not expected[index]:
                raise Invalid(
                    f"sums[{index}]", f"is {value:016x}: the sum of no cells in {_REGIONS[index]} is 0"
                )


def _check_runs(field: str, runs: Sequence[Run], pages: int) -> None:
    """Runs of page ordinals: sorted, disjoint, not empty, within P."""
    if len(runs) == 1:  # nearly always
        first, count = runs[0]
        if count and first + count <= pages:
            return
    end = 0
    for first, count in runs:
        if count == 0:
            raise Invalid(field, f"holds [{first}, 0]: leave empty runs out")
        if first < end:
            raise Invalid(
                field, f"[{first}, {count}] starts before the run ahead of it ends ({end}): sort them"
            )
        end = first + count
    if end > pages:
        raise Invalid(field, f"reaches page {end - 1}: the transfer has {pages} pages")


def _check_room_record(record: Observation | Event | Detail, now: float) -> None:
    room = record.room
    if not room.isascii() and len(room.encode("utf-8", "surrogatepass")) > MAX_ROOM_BYTES:
        raise Invalid("room", f"has more than {MAX_ROOM_BYTES} bytes in UTF-8: shorten or hash it")
    _check_text("room", room)
    check_time("at", record.at, now)
    if isinstance(record, Detail):
        return
    if record.request:
        _check_text("request", record.request)
    if record.trace:
        _check_text("trace", record.trace)
    if record.peer:
        _check_name("peer", record.peer)
    keys = record.keys
    if len(keys) > 1:
        _check_distinct("keys", keys)


def check_time(field: str, value: float, now: float) -> None:
    """A time by the worker's clock: a number, and not in another age. Raises :class:`Invalid`."""
    # Written so that NaN fails too.
    if not value <= now + FUTURE_S:
        raise Invalid(
            field, f"is {value}, more than a day ahead of the collector's clock ({now:.0f}): set the clock"
        )


@lru_cache(maxsize=1024)  # keeps no name that is refused
def _check_component_name(field: str, name: str) -> None:
    _check_name(field, name)
    if _BAD_NAME.search(name):
        raise Invalid(field, f"is {name!r:.80}: a component's name has no comma and no control character")


def _check_name(field: str, value: str) -> None:
    _check_text(field, value)
    if not value.isascii() and len(value.encode()) > MAX_NAME_BYTES:
        raise Invalid(field, f"has more than {MAX_NAME_BYTES} bytes in UTF-8: shorten it")


def _check_text(field: str, value: str) -> None:
    if "\x00" in value:
        raise Invalid(field, f"is {value!r:.80}: the character NUL cannot be stored, leave it out")
    if not value.isascii():
        try:
            value.encode()
        except UnicodeEncodeError:
            raise Invalid(field, f"is {value!r:.80}: half a surrogate pair is no character") from None


def _check_distinct(field: str, names: list[str]) -> None:
    if len(set(names)) != len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise Invalid(field, f"has {twice!r:.80} twice: each once")
