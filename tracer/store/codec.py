"""Records and verdicts as the store keeps them: msgpack, and the natural key of a record."""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from pd_tracer_hooks import wire
from pd_tracer_hooks.wire import Event, Manifest, Observation
from tracer.join.model import RoomVerdict

EVENT_PREFIX = "event:"


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


def stage_of(record: Observation | Event) -> str:
    """The ``stage`` column: an observation's stage, or ``event:<kind>``."""
    return record.stage.value if isinstance(record, Observation) else _EVENT_STAGES[record.kind]


def natural_key(worker: wire.Worker, record: Observation | Event) -> NaturalKey:
    """The natural key of a record that ``worker`` made."""
    if isinstance(record, Observation):
        stage, look = _STAGES[record.stage], record.look
    else:
        stage, look = _EVENT_STAGES[record.kind], 0
    keys = record.keys
    return NaturalKey(
        keys[0] if keys else "", _SIDES[worker.side], stage, look, worker.id, worker.boot, record.seq
    )


encode_record = wire.msgpack_encoder.encode
_observations = wire.decoder(Observation)
_events = wire.decoder(Event)
_manifests = wire.decoder(Manifest)


def decode_record(stage: str, body: bytes) -> Observation | Event:
    """A record's body back. Raises ``msgspec.DecodeError`` for a body that is no record."""
    record: Observation | Event = (_events if stage.startswith(EVENT_PREFIX) else _observations).decode(body)
    return record


def decode_manifest(body: bytes) -> Manifest:
    """A manifest's body back. Raises ``msgspec.DecodeError``."""
    manifest: Manifest = _manifests.decode(body)
    return manifest


encode_verdict = msgspec.msgpack.Encoder().encode
decode_verdict = msgspec.msgpack.Decoder(RoomVerdict).decode

encode_json = msgspec.json.Encoder(order="sorted").encode
"""JSON with sorted keys, so that equal values give equal text."""
