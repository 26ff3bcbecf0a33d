"""When a room says that the transfer is not the cause, and what that leaves open."""

from __future__ import annotations

import pytest
from support.rooms import D0, INDEX_K, KV, P0, RoomBuilder
from support.wrongs import BAD, ENDS, Build, judged, manifests

from pd_tracer_hooks.wire import Owned, Stage
from tracer.join.exoneration import statement

#: What the exoneration of a room needs, and what it leaves open.
EXONERATED: list[tuple[str, Build, list[str] | None]] = [
    (
        "send and receive",
        lambda r: both(r).opened().send(KV.part(), INDEX_K.part()).receive(KV.part(), INDEX_K.part()),
        ["metadata", "second look", "no admit"],
    ),
    (
        "all stages",
        lambda r: (
            both(r)
            .opened()
            .send(KV.part(), INDEX_K.part())
            .send(KV.part(), INDEX_K.part(), look=1)
            .receive(KV.part(), INDEX_K.part())
            .look(Stage.release, KV.part(), INDEX_K.part(), worker=P0)
            .look(Stage.admit, KV.part(owned=Owned.yes), INDEX_K.part(), worker=D0)
        ),
        ["metadata"],
    ),
    (
        "decode held a prefix",
        lambda r: (
            both(r)
            .opened()
            .send(KV.part(start=3), INDEX_K.part(start=3))
            .receive(KV.part(start=3), INDEX_K.part(start=3))
        ),
        ["before page 3", "metadata", "second look", "no admit"],
    ),
    (
        "one look found something else",
        lambda r: (
            both(r)
            .opened()
            .send(KV.part(), INDEX_K.part())
            .receive(KV.part(), INDEX_K.part())
            .look(Stage.release, KV.part(holds=BAD), worker=P0)
        ),
        None,
    ),
    ("no manifests", lambda r: r.opened().send(KV.part()).receive(KV.part()), None),
    (
        "the ends only",
        lambda r: manifests(r).opened().send(ENDS.part()).receive(ENDS.part()),
        None,
    ),
    (
        "some layers only",
        lambda r: manifests(r).opened().send(KV.part(layers=[0])).receive(KV.part(layers=[0])),
        None,
    ),
    ("one side", lambda r: manifests(r).opened().send(KV.part()), None),
]


def both(room: RoomBuilder) -> RoomBuilder:
    for worker in (P0, D0):
        room.manifest(worker, KV.in_manifest(), INDEX_K.in_manifest())
    return room


@pytest.mark.parametrize(("build", "gaps"), [row[1:] for row in EXONERATED], ids=[r[0] for r in EXONERATED])
def test_exonerated(build: Build, gaps: list[str] | None) -> None:
    room = RoomBuilder()
    build(room)
    said = judged(room)
    assert said.exonerated == (gaps is not None)
    assert len(said.not_covered) == len(gaps or [])
    for gap, text in zip(gaps or [], said.not_covered, strict=True):
        assert gap in text
    if gaps is not None:
        sentence = statement(said.components, said.not_covered)
        assert sentence.startswith("the transfer is not the cause: index_k and kv arrived as sent")
        assert all(text in sentence for text in said.not_covered)
