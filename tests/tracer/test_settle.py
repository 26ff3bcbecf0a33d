"""How verdicts are counted: once when they settle, as revisions after that, anew for a new attempt."""

from __future__ import annotations

from typing import Any

import pytest

from pd_tracer_hooks.wire import Coverage
from tracer.join.model import Attempt, ComponentVerdict, RoomVerdict, Verdict
from tracer.store.settle import Change, Count, Pair, Revision, change, coverage_of, worst_components

PAIR = Pair("P", "D")
V = Verdict


def said(verdict: Verdict, kv: Verdict | None = None, *, attempt: int = 1, decode: str = "D") -> RoomVerdict:
    """A verdict on a room with one component."""
    part = V(kv or verdict)
    return RoomVerdict(
        verdict=verdict,
        settled=verdict is not V.pending,
        attempts=[Attempt(number=attempt, verdict=verdict, prefill_server="P", decode_server=decode)],
        components=[ComponentVerdict(component="kv", verdict=part)],
    )


def counts(*what: tuple[str, Verdict, int], pair: Pair = PAIR) -> dict[Count, int]:
    return {Count(pair, component, verdict): amount for component, verdict, amount in what}


NOTHING = Change({}, [], [])


@pytest.mark.parametrize(
    ("before", "after", "counted", "expected"),
    [
        pytest.param(None, said(V.pending), False, NOTHING, id="pending counts nothing"),
        pytest.param(
            None,
            said(V.match),
            False,
            Change(
                counts(("kv", V.match, 1), ("", V.match, 1)),
                [Count(PAIR, "kv", V.match), Count(PAIR, "", V.match)],
                [],
            ),
            id="settles at once",
        ),
        pytest.param(
            said(V.pending),
            said(V.mismatch, V.pending),
            False,
            Change(counts(("", V.mismatch, 1)), [Count(PAIR, "", V.mismatch)], []),
            id="decided while a component is pending",
        ),
        pytest.param(
            said(V.mismatch, V.pending),
            said(V.mismatch, V.match),
            True,
            Change(counts(("kv", V.match, 1)), [Count(PAIR, "kv", V.match)], []),
            id="the component follows",
        ),
        pytest.param(said(V.match), said(V.match), True, NOTHING, id="nothing new"),
        pytest.param(
            said(V.match),
            said(V.mismatch),
            True,
            Change(
                counts(("kv", V.match, -1), ("", V.match, -1), ("kv", V.mismatch, 1), ("", V.mismatch, 1)),
                [],
                [Revision(PAIR, "kv", V.match, V.mismatch), Revision(PAIR, "", V.match, V.mismatch)],
            ),
            id="revised",
        ),
        pytest.param(
            said(V.match),
            said(V.pending),
            True,
            Change(
                counts(("kv", V.match, -1), ("", V.match, -1)),
                [],
                [Revision(PAIR, "kv", V.match, V.pending), Revision(PAIR, "", V.match, V.pending)],
            ),
            id="pending again",
        ),
        pytest.param(
            said(V.pending),
            said(V.match),
            True,
            Change(
                counts(("kv", V.match, 1), ("", V.match, 1)),
                [],
                [Revision(PAIR, "kv", V.pending, V.match), Revision(PAIR, "", V.pending, V.match)],
            ),
            id="settled for the second time is a revision",
        ),
        pytest.param(
            said(V.match),
            said(V.match, decode="E"),
            True,
            Change(
                {
                    **counts(("kv", V.match, -1), ("", V.match, -1)),
                    **counts(("kv", V.match, 1), ("", V.match, 1), pair=Pair("P", "E")),
                },
                [],
                [],
            ),
            id="moved to another pair",
        ),
        pytest.param(said(V.match), said(V.pending, attempt=2), True, NOTHING, id="used again"),
        pytest.param(
            said(V.match),
            said(V.match, attempt=2),
            True,
            Change(
                counts(("kv", V.match, 1), ("", V.match, 1)),
                [Count(PAIR, "kv", V.match), Count(PAIR, "", V.match)],
                [],
            ),
            id="used again and settled at once",
        ),
    ],
)
def test_change(before: RoomVerdict | None, after: RoomVerdict, counted: bool, expected: Change) -> None:
    assert change(before, after, counted=counted) == expected


def test_any_history_adds_up_to_its_last_verdict() -> None:
    """Whatever a room goes through, the signed counts of an attempt end at what it ends with."""
    import itertools

    verdicts = [V.pending, V.match, V.mismatch, V.missing_decode]
    for history in itertools.product(verdicts, repeat=4):
        total: dict[Count, int] = {}
        before, counted = None, False
        for verdict in history:
            after = said(verdict)
            for count, amount in change(before, after, counted=counted).deltas.items():
                total[count] = total.get(count, 0) + amount
            before, counted = after, counted or verdict is not V.pending
        last = history[-1]
        expected = {} if last is V.pending else counts(("kv", last, 1), ("", last, 1))
        assert {count: amount for count, amount in total.items() if amount} == expected, history


@pytest.mark.parametrize(
    ("coverages", "expected"),
    [
        ([], None),
        ([None], None),
        ([Coverage.full, Coverage.full], Coverage.full),
        ([Coverage.full, Coverage.ends, None], Coverage.ends),
    ],
)
def test_the_least_coverage(coverages: list[Any], expected: Coverage | None) -> None:
    parts = [ComponentVerdict(component=str(n), verdict=V.match, coverage=c) for n, c in enumerate(coverages)]
    assert coverage_of(RoomVerdict(verdict=V.match, settled=True, components=parts)) is expected


def test_worst_components() -> None:
    parts = [
        ComponentVerdict(component=name, verdict=verdict)
        for name, verdict in (("index_k", V.mismatch), ("kv", V.match), ("swa", V.mismatch))
    ]
    assert worst_components(RoomVerdict(verdict=V.mismatch, settled=True, components=parts)) == (
        ",index_k,swa,"
    )
    assert worst_components(RoomVerdict(verdict=V.dropped, settled=True, components=parts)) == ""
