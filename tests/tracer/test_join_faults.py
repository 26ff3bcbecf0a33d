"""Faults that users of real engines met, as both sides would report them, and what is said of each.

``send`` and ``receive`` alone tell that the bytes differ and where; why they do is left unexplained here, and
told in test_join_causes_faults.py.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import pytest
from support.rooms import D0, INDEX_K, KEY2, KV, P0, PAGE_LAYOUT, POLICY, Component, RoomBuilder

from pd_tracer_hooks.layout import signature, signature_fields
from pd_tracer_hooks.wire import Coverage, ManifestComponent, Stage
from tracer.join import judge
from tracer.join.model import Cause, RoomVerdict, Verdict

#: 16 pages sent in four chunks of four.
CHUNKED = Component("kv", layers=(0, 1, 2), pages=16, k=2)
CHUNKS = [CHUNKED.part([(first, 4)]) for first in (0, 4, 8, 12)]

NHD = signature_fields(component="kv", layout=dataclasses.replace(PAGE_LAYOUT, kind="nhd"), k=2)
HND = signature_fields(component="kv", layout=dataclasses.replace(PAGE_LAYOUT, kind="hnd"), k=2)

Build = Callable[[RoomBuilder], Any]


def _all_layers(*pages: int) -> set[tuple[int, int]]:
    return {(layer, page) for layer in CHUNKED.layers for page in pages}


def _chunked(room: RoomBuilder, *bad_pages: int) -> RoomBuilder:
    room.opened()
    for chunk in CHUNKS:
        room.send(chunk)
    return room.receive(CHUNKED.part(damage=_all_layers(*bad_pages)))


def _moves(fields: dict[str, str]) -> ManifestComponent:
    return ManifestComponent(name="kv", signature=signature(fields), fields=fields, layers=[0, 1, 2])


FAULTS: list[tuple[str, Build, Verdict, str]] = [
    (
        "F1: read before the bytes were there",
        lambda r: _chunked(r, 12, 13),
        Verdict.mismatch,
        "kv: body differs in layers 0-2, pages 12-13 of 16",
    ),
    (
        "F2: only the last chunk was complete",
        lambda r: _chunked(r, *range(12)),
        Verdict.mismatch,
        "kv: head and body differ in layers 0-2, pages 0-11 of 16; "
        "a run from the first page on, on the edge of prefill's chunks at page 12",
    ),
    (
        "F3: zeros from an offset on",
        lambda r: _chunked(r, *range(9, 16)),
        Verdict.mismatch,
        "kv: tail and body differ in layers 0-2, pages 9-15 of 16",
    ),
    (
        "F4: another request's late write, in the victim's pages",
        lambda r: _chunked(r, 5),
        Verdict.mismatch,
        "kv: body differs in layers 0-2, page 5 of 16",
    ),
    (
        "F5: a component is not moved at all, and neither side reports it",
        lambda r: (
            r.manifest(P0, KV.in_manifest(), INDEX_K.in_manifest())
            .manifest(D0, KV.in_manifest(), INDEX_K.in_manifest(moved=False))
            .opened()
            .send(KV.part())
            .receive(KV.part())
        ),
        Verdict.missing_component,
        "index_k: by its manifest decode has it and does not move it, and neither side reported it",
    ),
    (
        "F6: the index failed behind the success of kv",
        lambda r: (
            r.opened()
            .send(KV.part(), INDEX_K.part())
            .receive(KV.part(), INDEX_K.part(content="left from before"))
        ),
        Verdict.mismatch,
        "index_k: head, tail and body differ in layers 0, 2, pages 0-7 of 8",
    ),
    (
        "F7: the sides count pages differently",
        lambda r: r.opened().send(dataclasses.replace(KV, pages=9).part()).receive(KV.part()),
        Verdict.count_mismatch,
        "kv: prefill counts 9, decode 8 pages",
    ),
    (
        "F8: the layout is read another way, and the manifests say so",
        lambda r: (
            r.manifest(P0, _moves(NHD))
            .manifest(D0, _moves(HND))
            .opened()
            .send(KV.part(signature=signature(NHD)))
            .receive(KV.part(signature=signature(HND), content="the same words in another order"))
        ),
        Verdict.incomparable,
        "kv: signatures differ in layout (prefill 'nhd', decode 'hnd')",
    ),
    (
        "F8: the layout is read another way, unknown to both",
        lambda r: r.opened().send(KV.part()).receive(KV.part(content="the same words in another order")),
        Verdict.mismatch,
        "kv: head, tail and body differ in layers 0-2, pages 0-7 of 8",
    ),
    (
        "F10: the room comes again",
        lambda r: (
            r.opened(request="a")
            .send(KV.part())
            .receive(KV.part(), request="a")
            .opened(request="b")
            .send(CHUNKED.part())
            .receive(CHUNKED.part(), request="b")
        ),
        Verdict.match,
        "kv: equal in full (16 pages x 3 layers)",
    ),
    (
        "F10: the room twice at once",
        lambda r: (
            r.opened(request="a")
            .opened(request="b", keys=[KEY2])
            .send(CHUNKED.part(), keys=[KEY2])
            .send(KV.part())
            .receive(KV.part(), request="a")
            .receive(CHUNKED.part(), request="b", keys=[KEY2])
        ),
        Verdict.match,
        "kv: equal in full (16 pages x 3 layers)",
    ),
    (
        "F12: the source was overwritten while it was read, and nobody looked at release",
        lambda r: _chunked(r, 3),
        Verdict.mismatch,
        "kv: body differs in layers 0-2, page 3 of 16",
    ),
    (
        "F13: damaged while the request waited, in pages that may have been another's by then",
        lambda r: _chunked(r).look(Stage.admit, CHUNKED.part(damage=_all_layers(3)), worker=D0),
        Verdict.match,
        "kv: equal in full (16 pages x 3 layers)",
    ),
    (
        "F15: one bit flips on the wire",
        lambda r: r.opened().send(CHUNKED.part()).receive(CHUNKED.part(damage={(2, 11)})),
        Verdict.mismatch,
        "kv: body differs in layer 2, page 11 of 16",
    ),
    (
        "F16: each rank holds other heads",
        lambda r: (
            r.manifest(P0, KV.in_manifest())
            .manifest(D0, dataclasses.replace(KV, head_slice="0/2").in_manifest())
            .opened()
            .send(KV.part())
            .receive(dataclasses.replace(KV, head_slice="0/2", content="half the heads").part())
        ),
        Verdict.incomparable,
        "kv: signatures differ in head_slice (prefill '', decode '0/2')",
    ),
    (
        "F17: everything arrived: the transfer is exonerated",
        lambda r: r.opened().send(KV.part(), INDEX_K.part()).receive(KV.part(), INDEX_K.part()),
        Verdict.match,
        "index_k: equal in full (8 pages x 2 layers); kv: equal in full (8 pages x 3 layers)",
    ),
    (
        "F18: a prefix was sent before it was computed",
        lambda r: _chunked(r, 0, 1, 2, 3),
        Verdict.mismatch,
        "kv: head and body differ in layers 0-2, pages 0-3 of 16; "
        "a run from the first page on, on the edge of prefill's chunks at page 4",
    ),
]


def _judged(room: RoomBuilder, now: float | None = None) -> RoomVerdict:
    return judge(room.entries, room.manifests, POLICY, room.now if now is None else now)


@pytest.mark.parametrize(
    ("build", "verdict", "reason"), [row[1:] for row in FAULTS], ids=[r[0] for r in FAULTS]
)
def test_found_at_once(build: Build, verdict: Verdict, reason: str) -> None:
    room = RoomBuilder()
    build(room)
    said = _judged(room)
    assert (said.verdict, said.reason) == (verdict, reason)
    assert said.settled
    assert said.cause is (Cause.unexplained if verdict is Verdict.mismatch else None)
    for other in said.components:
        assert other.verdict in (verdict, Verdict.match)


def test_f9_the_pair_of_a_mismatch_is_known() -> None:
    (attempt,) = _judged(_chunked(RoomBuilder(), 3)).attempts
    assert (attempt.prefill_server, attempt.decode_server) == (P0.server, D0.server)
    assert (attempt.transfers[0].prefill_workers, attempt.transfers[0].decode_workers) == (["p0"], ["d0"])


def test_f11_pages_gone_before_decode_read_them() -> None:
    room = RoomBuilder().opened().send(KV.part()).event("freed", P0)
    assert _judged(room).verdict is Verdict.pending
    late = _judged(room, room.entries[1].received + POLICY.send_deadline_s)
    assert late.verdict is Verdict.missing_decode
    assert "within 180 s of the last send (prefill worker p0)" in late.reason


def test_f14_a_transfer_that_hangs_is_called_so_while_it_hangs() -> None:
    room = RoomBuilder().opened(peer="10.0.0.1:8998")
    said = _judged(room)
    assert said.deadline is not None
    late = _judged(room, said.deadline)
    assert late.verdict is Verdict.missing_prefill
    assert late.attempts[0].prefill_server == "10.0.0.1:8998"


def test_f15_at_the_ends_says_what_it_did_not_read() -> None:
    ends = dataclasses.replace(CHUNKED, coverage=Coverage.ends)
    said = _judged(RoomBuilder().opened().send(ends.part()).receive(ends.part(damage={(2, 11)})))
    assert said.verdict is Verdict.match
    assert said.components[0].coverage is Coverage.ends
    assert said.reason == "kv: equal at both ends (16 pages x 3 layers, pages 2-13 not read)"
