"""From the bytes of a report to records that are known to be good, and refusals for the rest.

The fast path decodes the whole report in one go. Only when that fails are the records decoded one by
one, so that a bad one never costs its neighbours.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any, TypeVar

import msgspec
from msgspec import Meta, Struct

from pd_tracer_hooks import wire
from pd_tracer_hooks.version import WIRE_VERSION
from pd_tracer_hooks.wire import (
    Count,
    Detail,
    Event,
    Heartbeat,
    Manifest,
    Name,
    Observation,
    RecordKind,
    Refusal,
    Report,
    Seconds,
    Text,
    Worker,
)
from tracer.api.answers import Rejected
from tracer.api.validate import (
    Invalid,
    check_detail,
    check_envelope,
    check_event,
    check_manifest,
    check_observation,
)

CONTENT_TYPES = (wire.MSGPACK, wire.JSON)
#: A report with more refusals than this lists the first of them; the rest are counted alone.
MAX_REFUSALS = 1000

_PLACE = re.compile(r"^(?P<reason>.*?)(?: - at `\$?\.?(?P<field>.*)`)?$", re.DOTALL)
#: What decoding hostile bytes can raise beside msgspec's own errors.
_DECODE_ERRORS = (msgspec.DecodeError, UnicodeError, RecursionError, OverflowError, ValueError, TypeError)


class _Version(Struct):
    wire: Annotated[str, Meta(pattern=r"^[0-9]{1,4}\.[0-9]{1,4}$")]


class _Envelope(Struct, kw_only=True):
    """A report whose records are left as they are."""

    wire: str
    worker: Worker
    batch: Text = ""
    sent_at: Seconds = 0.0
    observations: list[msgspec.Raw] = []
    events: list[msgspec.Raw] = []
    manifests: list[msgspec.Raw] = []
    details: list[msgspec.Raw] = []
    heartbeat: Heartbeat | None = None
    drops: Annotated[dict[Name, Count], Meta(max_length=64)] = {}


@dataclass(frozen=True)
class _Decoders:
    report: Any
    version: Any
    envelope: Any
    observation: Any
    event: Any
    manifest: Any
    detail: Any


_DECODERS = {
    kind: _Decoders(
        *(
            wire.decoder(struct, kind)
            for struct in (Report, _Version, _Envelope, Observation, Event, Manifest, Detail)
        )
    )
    for kind in CONTENT_TYPES
}


@dataclass(slots=True)
class Read:
    """A report taken apart."""

    report: Report
    observations: list[Observation]
    events: list[Event]
    manifests: list[Manifest]
    details: list[Detail]
    refused: list[Refusal]

    @property
    def only_refused(self) -> bool:
        """Whether there were records, and none of them is good."""
        return bool(self.refused) and not (self.observations or self.events or self.manifests or self.details)


def read_report(body: bytes, content_type: str, *, now: float, max_records: int) -> Read:
    """Decode and check a report. ``content_type``: one of :data:`CONTENT_TYPES`.

    Raises :class:`tracer.api.answers.Rejected` when the report as a whole cannot be taken.
    """
    decoders = _DECODERS[content_type]
    refused: list[Refusal] = []
    try:
        report: Report = decoders.report.decode(body)
    except _DECODE_ERRORS:
        return _read_slowly(body, decoders, content_type, now=now, max_records=max_records)
    _check_version(report.wire)
    _check_size(_records_in(report), max_records)
    _check_envelope(report, now)
    indexed = (
        list(enumerate(report.observations)),
        list(enumerate(report.events)),
        list(enumerate(report.manifests)),
        list(enumerate(report.details)),
    )
    return _checked(report, *indexed, refused=refused, now=now)


def _read_slowly(
    body: bytes, decoders: _Decoders, content_type: str, *, now: float, max_records: int
) -> Read:
    # A version that is not known comes first: what else looks wrong may only be new.
    try:
        _check_version(decoders.version.decode(body).wire)
        envelope: _Envelope = decoders.envelope.decode(body)
    except msgspec.ValidationError as error:
        reason, field = _explain(error)
        raise Rejected(422, f"{field or 'report'}: {reason}", field=field, hint="see docs/wire.md") from None
    except _DECODE_ERRORS as error:
        raise Rejected(
            400, f"the body is no {content_type.split('/')[1]}: {error}", hint=f"sent as {content_type}"
        ) from None
    _check_size(_records_in(envelope), max_records)
    refused: list[Refusal] = []
    observations = _each(envelope.observations, decoders.observation, RecordKind.observations, refused)
    events = _each(envelope.events, decoders.event, RecordKind.events, refused)
    manifests = _each(envelope.manifests, decoders.manifest, RecordKind.manifests, refused)
    details = _each(envelope.details, decoders.detail, RecordKind.details, refused)
    report = Report(
        wire=envelope.wire,
        worker=envelope.worker,
        batch=envelope.batch,
        sent_at=envelope.sent_at,
        heartbeat=envelope.heartbeat,
        drops=envelope.drops,
    )
    _check_envelope(report, now)
    return _checked(report, observations, events, manifests, details, refused=refused, now=now)


_T = TypeVar("_T")


def _each(
    raws: list[msgspec.Raw], decoder: Any, kind: RecordKind, refused: list[Refusal]
) -> list[tuple[int, Any]]:
    good: list[tuple[int, Any]] = []
    for index, raw in enumerate(raws):
        try:
            good.append((index, decoder.decode(raw)))
        except _DECODE_ERRORS as error:
            reason, field = _explain(error)
            refused.append(Refusal(kind=kind, index=index, field=field, reason=reason))
    return good


def _checked(
    report: Report,
    observations: list[tuple[int, Observation]],
    events: list[tuple[int, Event]],
    manifests: list[tuple[int, Manifest]],
    details: list[tuple[int, Detail]],
    *,
    refused: list[Refusal],
    now: float,
) -> Read:
    side = report.worker.side

    def keep(records: list[tuple[int, _T]], kind: RecordKind, check: Callable[[_T], None]) -> list[_T]:
        good: list[_T] = []
        for index, record in records:
            try:
                check(record)
                good.append(record)
            except Invalid as error:
                refused.append(Refusal(kind=kind, index=index, field=error.field, reason=error.reason))
        return good

    return Read(
        report,
        keep(observations, RecordKind.observations, lambda record: check_observation(record, side, now)),
        keep(events, RecordKind.events, lambda record: check_event(record, now)),
        keep(manifests, RecordKind.manifests, lambda record: check_manifest(record, now)),
        keep(details, RecordKind.details, lambda record: check_detail(record, now)),
        refused,
    )


def _check_version(theirs: str) -> None:
    if not wire.understands(theirs):
        raise Rejected(
            422,
            f"wire: version {theirs} is not understood by this collector of version {WIRE_VERSION}",
            field="wire",
            hint=f"use hooks from {wire.OLDER_MINORS} minor releases older to {wire.NEWER_MINORS} newer"
            f" than {WIRE_VERSION}, or another collector",
        )


def _records_in(report: Report | _Envelope) -> int:
    lists = (report.observations, report.events, report.manifests, report.details)
    return sum(map(len, lists))


def _check_size(records: int, most: int) -> None:
    if records > most:
        raise Rejected(413, f"{records} records in one report: at most {most} are taken", hint="send halves")


def _check_envelope(report: Report, now: float) -> None:
    try:
        check_envelope(report, now)
    except Invalid as error:
        raise Rejected(422, str(error), field=error.field) from None


def _explain(error: BaseException) -> tuple[str, str]:
    """(reason, field) of a decoding error; the field is empty where msgspec names none."""
    found = _PLACE.match(str(error))
    assert found is not None
    return found["reason"], found["field"] or ""
