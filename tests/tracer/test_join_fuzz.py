"""Whatever the wire lets through gets a verdict: the join never fails and never waits for ever."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st
from support.rooms import D0, D1, KEY, KEY2, KV, P0, P1, POLICY

from pd_tracer_hooks.u64s import U64s
from pd_tracer_hooks.wire import (
    JSON,
    MSGPACK,
    ComponentDigest,
    Coverage,
    Detail,
    Event,
    EventKind,
    Manifest,
    ManifestComponent,
    Observation,
    Owned,
    Stage,
    decoder,
    encode,
)
from tracer.join import judge
from tracer.join.model import DECIDED_EARLY, Donor, Entry, How, RoomVerdict, Verdict

NAMES = ["index_k", "kv"]

u64s = st.lists(st.integers(0, 2**64 - 1), max_size=7).map(U64s.of)
runs = st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), max_size=3)
layers = st.lists(st.integers(0, 3), max_size=4)
keys = st.lists(st.sampled_from([KEY, KEY2]), max_size=2)
requests = st.sampled_from(["", "r1", "r2"])
signatures = st.sampled_from([KV.signature, "0" * 16])

anyhow = st.builds(
    ComponentDigest,
    name=st.sampled_from(NAMES),
    signature=signatures,
    pages=st.integers(0, 9),
    k=st.integers(0, 3),
    coverage=st.sampled_from(Coverage),
    layers=layers,
    runs=runs,
    last=st.booleans(),
    sums=u64s,
    cells=st.lists(st.integers(0, 40), min_size=3, max_size=3),
    buckets=u64s,
    layer_sums=u64s,
    start=st.integers(0, 2),
    last_rows=st.none() | st.integers(0, 2),
    owned=st.sampled_from(Owned),
    physical=runs,
)
#: Parts that fit together often enough to reach a comparison.
sound = st.builds(
    lambda cut, group, damage: KV.part(cut, group, damage=damage),
    st.sampled_from([None, [(0, 4)], [(4, 4)], [(2, 4)]]),
    st.sampled_from([None, [0, 1], [2]]),
    st.sampled_from([(), ((0, 0),), ((2, 5),)]),
)
components = st.lists(sound, min_size=1, max_size=2) | st.lists(anyhow, min_size=1, max_size=2)

observations = st.builds(
    Observation,
    room=st.just("4711"),
    keys=keys,
    stage=st.sampled_from(
        [Stage.send, Stage.receive, Stage.receive, Stage.allocate, Stage.release, Stage.recheck, Stage.admit]
    ),
    look=st.sampled_from([0, 0, 0, 1]),
    seq=st.integers(0, 12),
    at=st.just(0.0),
    request=requests,
    peer=st.sampled_from(["", "peer"]),
    tokens=st.none() | st.integers(30, 32),
    components=components,
)
events = st.builds(
    Event,
    kind=st.sampled_from(EventKind),
    room=st.just("4711"),
    keys=keys,
    seq=st.integers(0, 12),
    at=st.just(0.0),
    request=requests,
    component=st.sampled_from(["", "kv"]),
)
#: Page digests that are, are not, and hardly can be behind a look.
details = st.builds(
    lambda keys, seq, fields: Detail(room="4711", keys=keys, seq=seq, at=0.0, **fields),
    keys,
    st.integers(0, 12),
    st.builds(
        lambda stage, cut, damage: KV.detail(stage, cut, damage, order_free=True),
        st.sampled_from([Stage.send, Stage.receive, Stage.admit, Stage.release]),
        st.sampled_from([None, [(0, 4)], [(4, 4)]]),
        st.sampled_from([(), ((0, 0),), ((2, 5),)]),
    )
    | st.fixed_dictionaries(
        {
            "stage": st.sampled_from(Stage),
            "component": st.sampled_from(NAMES),
            "layers": layers,
            "runs": runs,
            "digests": u64s,
            "order_free": u64s,
            "gone": st.booleans(),
        }
    ),
)
donors = st.lists(
    st.builds(
        Donor,
        room=st.just("17"),
        how=st.sampled_from(How),
        page_runs=runs,
        layers=layers,
    ),
    max_size=2,
)
entries = st.builds(
    Entry,
    worker=st.sampled_from([P0, P1, D0, D1]),
    received=st.integers(0, 5).map(float),
    record=observations | events | details,
)
manifests = st.dictionaries(
    st.sampled_from([(w.id, w.boot) for w in (P0, P1, D0, D1)]),
    st.builds(
        Manifest,
        seq=st.just(0),
        at=st.just(0.0),
        components=st.lists(
            st.builds(
                ManifestComponent,
                name=st.sampled_from([*NAMES, "state"]),
                signature=signatures,
                fields=st.sampled_from([{}, {"k": "2"}, {"k": "3"}]),
                layers=layers,
                moved=st.booleans(),
            ),
            max_size=3,
        ),
    ),
)


def _holds_together(said: RoomVerdict) -> None:
    latest = said.attempts[-1]
    assert said.verdict is latest.verdict
    assert said.settled or said.verdict is Verdict.pending or said.verdict in DECIDED_EARLY
    assert said.settled or said.deadline is not None
    assert said.reason
    assert (said.cause is not None) == (said.verdict is Verdict.mismatch)
    assert sorted({c.component for t in latest.transfers for c in t.components}) == [
        c.component for c in said.components
    ]
    for attempt in said.attempts:
        assert attempt.transfers
        for transfer in attempt.transfers:
            for one in transfer.components:
                assert (one.where is not None) == (one.verdict is Verdict.mismatch)
                assert (one.evidence is not None) == (one.verdict is Verdict.mismatch)
                assert not (transfer.exonerated and one.verdict is not Verdict.match)
                assert one.reason


@settings(max_examples=400, deadline=None)
@given(
    told=st.lists(entries, min_size=1, max_size=8),
    known=manifests,
    now=st.sampled_from([5.0, 190.0]),
    givers=donors,
    data=st.data(),
)
def test_a_verdict_whatever_comes(
    told: list[Entry],
    known: dict[tuple[str, str], Manifest],
    now: float,
    givers: list[Donor],
    data: st.DataObject,
) -> None:
    other_rooms = {(KEY, "kv"): givers}
    said = judge(told, known, POLICY, now, other_rooms)
    _holds_together(said)
    shuffled = data.draw(st.permutations(told))
    assert judge(shuffled, known, POLICY, now, other_rooms) == said
    final = judge(told, known, POLICY, 1e6, other_rooms)
    _holds_together(final)
    assert final.settled
    assert final.deadline is None
    assert final.verdict is not Verdict.pending
    for content_type in (JSON, MSGPACK):
        assert decoder(RoomVerdict, content_type).decode(encode(final, content_type)) == final
