"""Each verdict, from the observations that must lead to it."""

from __future__ import annotations

from support.rooms import D0, INDEX_K, KV, P0, POLICY, RoomBuilder

from tracer.join import judge
from tracer.join.model import RoomVerdict, Verdict


def _judged(room: RoomBuilder, now: float | None = None) -> RoomVerdict:
    return judge(room.entries, room.manifests, POLICY, room.now if now is None else now)


def test_equal_bytes_match() -> None:
    room = RoomBuilder().opened().send(KV.part(), INDEX_K.part()).receive(KV.part(), INDEX_K.part())
    verdict = _judged(room)
    assert verdict.verdict is Verdict.match
    assert verdict.settled
    assert verdict.deadline is None
    assert [(c.component, c.verdict) for c in verdict.components] == [
        ("index_k", Verdict.match),
        ("kv", Verdict.match),
    ]


def test_one_flipped_bit_is_found_in_its_layer_and_page() -> None:
    room = RoomBuilder().opened().send(KV.part()).receive(KV.part(damage={(1, 4)}))
    verdict = _judged(room)
    assert verdict.verdict is Verdict.mismatch
    (component,) = verdict.components
    assert component.where is not None
    assert component.where.regions == ["body"]
    assert component.where.layers == [1]
    assert component.where.page_runs == [(4, 1)]
    assert verdict.reason == "kv: body differs in layer 1, page 4 of 8"


def test_decode_that_stays_silent_is_missing_after_the_deadline() -> None:
    room = RoomBuilder().opened().event("started", P0).send(KV.part())
    sent = room.entries[-1].received
    waiting = _judged(room)
    assert (waiting.verdict, waiting.settled, waiting.deadline) == (Verdict.pending, False, sent + 180.0)
    late = _judged(room, sent + 180.0)
    assert (late.verdict, late.settled, late.deadline) == (Verdict.missing_decode, True, None)
    assert late.reason == (
        "kv: decode worker d0 never reported a receive within 180 s of the last send (prefill worker p0)"
    )
    assert late.attempts[0].decode_server == D0.server
