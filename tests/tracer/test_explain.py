"""The sentence of a verdict, case by case."""

from __future__ import annotations

import pytest

from pd_tracer_hooks.wire import Coverage
from tracer.explain import WORDS, explain, pair_text, visible, where_text
from tracer.join.model import Attempt, ComponentVerdict, RoomVerdict, Verdict, Where

V = Verdict
FULL, ENDS = Coverage.full, Coverage.ends


def part(name: str, verdict: Verdict, **other: object) -> ComponentVerdict:
    return ComponentVerdict(component=name, verdict=verdict, **other)  # type: ignore[arg-type]


def said(verdict: Verdict, *parts: ComponentVerdict, settled: bool = True, **other: object) -> RoomVerdict:
    return RoomVerdict(verdict=verdict, settled=settled, components=list(parts), **other)  # type: ignore[arg-type]


TAIL = Where(regions=["tail", "body"], layers=[3], page_runs=[(60, 4)])
CASES = [
    (
        said(V.mismatch, part("index_k", V.mismatch, where=TAIL), part("kv", V.match)),
        "room X: index_k mismatch, layer 3, tail, pages 60-63, pair A→B",
    ),
    (
        said(
            V.mismatch,
            part("index_k", V.mismatch, where=Where(regions=["head"])),
            part("kv", V.mismatch, where=Where(regions=["body"], layers=[0, 1, 2, 7], page_runs=[(5, 1)])),
        ),
        "room X: index_k mismatch, head; kv mismatch, layers 0-2, 7, body, page 5, pair A→B",
    ),
    (
        said(V.mismatch, *(part(f"c{i}", V.mismatch) for i in range(5))),
        "room X: c0 mismatch; c1 mismatch; c2 mismatch; 2 more components, pair A→B",
    ),
    (
        said(V.mismatch, part("kv", V.mismatch), settled=False),
        "room X: kv mismatch, pair A→B, not settled yet",
    ),
    (
        said(V.match, part("index_k", V.match, coverage=FULL), part("kv", V.match, coverage=FULL)),
        "room X: index_k and kv match in every page, pair A→B",
    ),
    (
        said(V.match, part("kv", V.match, coverage=ENDS)),
        "room X: kv match at both ends only, the middle was not read, pair A→B",
    ),
    (
        said(V.match, part("kv", V.match, coverage=FULL, layers=[0, 1], layers_of=61)),
        "room X: kv match in every page (2 of 61 layers of kv), pair A→B",
    ),
    (
        said(V.count_mismatch, part("kv", V.count_mismatch), reason="prefill has 4 pages, decode 3."),
        "room X: kv count mismatch (prefill has 4 pages, decode 3), pair A→B",
    ),
    (
        said(
            V.incomparable,
            part("index_k", V.incomparable),
            part("kv", V.incomparable),
            part("aux", V.match),
            reason="index_k, kv: dtype differs",
        ),
        "room X: index_k and kv incomparable (dtype differs), pair A→B",
    ),
    (
        said(V.missing_component, part("index_k", V.missing_component, reason="decode never moves it")),
        "room X: index_k missing (decode never moves it), pair A→B",
    ),
    (
        said(V.missing_decode, part("kv", V.missing_decode), reason="nothing from D0 in 180 s"),
        "room X: decode side missing (nothing from D0 in 180 s), pair A→B",
    ),
    (said(V.pending, settled=False), "room X: pending, pair A→B"),
    (said(V.aborted, reason="client\nleft"), "room X: aborted (client\\nleft), pair A→B"),
    (
        said(
            V.nothing_transferred,
            attempts=[Attempt(number=1, verdict=V.match), Attempt(number=2, verdict=V.nothing_transferred)],
        ),
        "room X: nothing transferred, pair A→B, attempt 2",
    ),
]


@pytest.mark.parametrize(("verdict", "sentence"), CASES, ids=[text for _, text in CASES])
def test_sentences(verdict: RoomVerdict, sentence: str) -> None:
    assert explain("X", verdict, prefill="A", decode="B") == sentence


def test_every_verdict_has_words_and_a_sentence() -> None:
    assert set(WORDS) == set(Verdict)
    for verdict in Verdict:
        assert explain("X", said(verdict)) == f"room X: {WORDS[verdict]}"


def test_a_side_without_a_name() -> None:
    assert pair_text("A", "") == "A→?"
    assert pair_text("", "B") == "?→B"


def test_hostile_names_stay_on_one_line() -> None:
    sentence = explain("4\x1b[2J\n7", said(V.mismatch, part("k\u202ev", V.mismatch)), prefill="P\r")
    assert sentence == "room 4\\x1b[2J\\n7: k\\u202ev mismatch, pair P\\r→?"
    assert sentence.isprintable()


@pytest.mark.parametrize("text", ["plain", "größe→ 名前", "🙂"])
def test_what_can_be_printed_stays(text: str) -> None:
    assert visible(text) == text


def test_where_without_anything() -> None:
    assert where_text(None) == where_text(Where()) == ""
