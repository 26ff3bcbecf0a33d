"""Records and verdicts as the store keeps them: msgpack, and the natural key of a record."""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from pd_tracer_hooks import wire
from pd_tracer_hooks.wire import Detail, Event, Manifest, Observation
from tracer.join.model import RoomVerdict

EVENT_PREFIX = "event:"
DETAIL_PREFIX = "detail:"


class NaturalKey(NamedTuple):
    """What makes a record of a room unique. Another record with it is a repetition of the first."""

    #: The first of the record's transfer keys, or empty. The rest stand in its body.
    transfer_key: str
    side: str
    stage: str
    look: int
    worker: str
    boot: str
    seq: int


#: Deployment and room.
RoomRef = tuple[str, str]

# Looked up, since an enum's ``value`` is a call.
_SIDES = {side: side.value for side in wire.Side}
_STAGES = {stage: stage.value for stage in wire.Stage}
_EVENT_STAGES = {kind: EVENT_PREFIX + kind.value for kind in wire.EventKind}


_DETAIL_STAGES = {stage: DETAIL_PREFIX + stage.value for stage in wire.Stage}

#: What a room's records are.
Record = Observation | Event | Detail


def stage_of(record: Record) -> str:
    """The ``stage`` column: an observation's stage, ``event:<kind>`` or ``detail:<stage>``."""
    if isinstance(record, Observation):
        return record.stage.value
    return _EVENT_STAGES[record.kind] if isinstance(record, Event) else _DETAIL_STAGES[record.stage]


def kind_of(stage: str) -> str:
    """What a stored stage is one of: ``observation``, ``event``, ``detail``."""
    if stage.startswith(EVENT_PREFIX):
        return "event"
    return "detail" if stage.startswith(DETAIL_PREFIX) else "observation"


def natural_key(worker: wire.Worker, record: Record) -> NaturalKey:
    """The natural key of a record that ``worker`` made."""
    if isinstance(record, Observation):
        stage, look = _STAGES[record.stage], record.look
    else:
        stage, look = stage_of(record), getattr(record, "look", 0)
    keys = record.keys
    return NaturalKey(
        keys[0] if keys else "", _SIDES[worker.side], stage, look, worker.id, worker.boot, record.seq
    )


encode_record = wire.msgpack_encoder.encode
_observations = wire.decoder(Observation)
_events = wire.decoder(Event)
_details = wire.decoder(Detail)
_manifests = wire.decoder(Manifest)


def decode_record(stage: str, body: bytes) -> Record:
    """A record's body back. Raises ``msgspec.DecodeError`` for a body that is no record."""
    if stage.startswith(EVENT_PREFIX):
        decoder = _events
    elif stage.startswith(DETAIL_PREFIX):
        decoder = _details
    else:
        decoder = _observations
    record: Record = decoder.decode(body)
    return record


def decode_manifest(body: bytes) -> Manifest:
    """A manifest's body back. Raises ``msgspec.DecodeError``."""
    manifest: Manifest = _manifests.decode(body)
    return manifest


encode_verdict = msgspec.msgpack.Encoder().encode
decode_verdict = msgspec.msgpack.Decoder(RoomVerdict).decode

encode_json = msgspec.json.Encoder(order="sorted").encode
"""JSON with sorted keys, so that equal values give equal text."""
