"""Which factor explains the mismatches: intervals against published values, rankings by table."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import product

import pytest
from support.reports import DAMAGED, PARTS, Cluster, speaker
from support.serving import Server
from typer.testing import CliRunner

from tracer.cli.main import app
from tracer.culprits.intervals import difference, wilson
from tracer.culprits.ranking import KINDS, Case, Factor, rank, sentence


@pytest.mark.parametrize(
    ("hits", "total", "low", "high"),
    [
        # Newcombe 1998 (two-sided score intervals without continuity correction), table I.
        (81, 263, 0.2553, 0.3662),
        (15, 148, 0.0624, 0.1605),
        (0, 20, 0.0, 0.1611),
        (1, 29, 0.0061, 0.1718),
        (0, 0, 0.0, 1.0),
    ],
)
def test_wilson(hits: int, total: int, low: float, high: float) -> None:
    assert wilson(hits, total) == pytest.approx((low, high), abs=5e-5)


@pytest.mark.parametrize(
    ("counts", "low", "high"),
    [
        # Newcombe 1998 (differences of independent proportions), table II, method 10.
        ((56, 70, 48, 80), 0.0524, 0.3339),
        ((9, 10, 3, 10), 0.1705, 0.8090),
        ((6, 7, 2, 7), 0.0582, 0.8062),
        ((5, 56, 0, 29), -0.0381, 0.1926),
        ((10, 10, 0, 20), 0.6791, 1.0),
    ],
)
def test_difference(counts: tuple[int, int, int, int], low: float, high: float) -> None:
    assert difference(*counts) == pytest.approx((low, high), abs=5e-5)


@pytest.mark.parametrize(("hits", "total"), [(-1, 3), (4, 3)])
def test_counts_that_cannot_be(hits: int, total: int) -> None:
    with pytest.raises(ValueError, match="0 <= hits <= total"):
        wilson(hits, total)


def fleet(bad: set[tuple[str, str]], each: int = 40) -> Iterator[Case]:
    """3 x 3 servers on nodes of their own; of every ``each`` rooms of a bad pair a quarter mismatches."""
    for prefill, decode in product(("P0", "P1", "P2"), ("D0", "D1", "D2")):
        for number in range(each):
            factors = {
                Factor("pair", f"{prefill}→{decode}"),
                Factor("prefill_server", prefill),
                Factor("decode_server", decode),
                Factor("prefill_node", f"node-{prefill}"),
                Factor("prefill_version", "engine 1.0"),
            }
            yield Case(frozenset(factors), (prefill, decode) in bad and number % 4 == 0)


@pytest.mark.parametrize(
    ("bad", "expected"),
    [
        ({("P1", "D2")}, ("pair", "P1→D2")),
        ({("P1", d) for d in ("D0", "D1", "D2")}, ("prefill_node", "node-P1")),
        ({(p, "D2") for p in ("P0", "P1", "P2")}, ("decode_server", "D2")),
    ],
)
def test_the_factor_that_explains_most_comes_first(
    bad: set[tuple[str, str]], expected: tuple[str, str]
) -> None:
    first = rank(fleet(bad))[0]
    assert (first.factor.kind, first.factor.value) == expected
    assert first.stands_out
    assert first.other_mismatches == 0
    assert first.explained == first.mismatches


def test_what_holds_the_same_cases_is_named_as_a_twin_and_not_ranked_again() -> None:
    ranked = rank(fleet({("P1", d) for d in ("D0", "D1", "D2")}))
    assert ranked[0].twins == (Factor("prefill_server", "P1"),)
    assert Factor("prefill_server", "P1") not in [each.factor for each in ranked]


def test_a_factor_that_every_case_has_explains_nothing() -> None:
    assert all(each.factor.kind != "prefill_version" for each in rank(fleet({("P1", "D2")})))


def test_damage_that_is_everywhere_is_nobody_s() -> None:
    everywhere = {(p, d) for p in ("P0", "P1", "P2") for d in ("D0", "D1", "D2")}
    ranked = rank(fleet(everywhere))
    assert not any(each.stands_out for each in ranked)
    assert sentence(ranked, mismatches=90, compared=360).startswith("no single factor stands out: 90 of 360")


def test_one_mismatch_accuses_nobody_in_a_small_sample() -> None:
    cases = [Case(frozenset({Factor("pair", f"P→D{n % 3}")}), n == 0) for n in range(9)]
    assert not rank(cases)[0].stands_out


@pytest.mark.parametrize(
    ("mismatches", "compared", "says"),
    [(0, 0, "no rooms were compared"), (0, 7, "no mismatch among 7 rooms compared")],
)
def test_without_mismatches_nobody_is_named(mismatches: int, compared: int, says: str) -> None:
    assert sentence([], mismatches=mismatches, compared=compared).startswith(says)


def test_kinds_have_an_order_without_doubles() -> None:
    assert len(set(KINDS)) == len(KINDS)


@pytest.fixture
def bad_pair(server: Server) -> Server:
    """Two pairs that share a decode server; every third room of the second pair is damaged."""
    for name, damaged in (("p0", 0), ("p1", 3)):
        cluster = Cluster(prefill=speaker("prefill", name, nic=f"mlx-{name}", node=f"node-{name}"))
        for number in range(12):
            room = f"{name}-{number}"
            bad = damaged and number % damaged == 0
            server.tell(cluster.sent(room), cluster.received(room, components=DAMAGED if bad else PARTS))
    return server


def test_culprits_over_http(bad_pair: Server) -> None:
    answer = bad_pair.http.get("/culprits", params={"window": "1h"}).json()
    assert (answer["mismatches"], answer["compared"], answer["sampled"]) == (4, 24, False)
    first = answer["culprits"][0]
    assert (first["mismatches"], first["compared"], first["other_mismatches"]) == (4, 12, 0)
    assert first["ratio_low"] < first["ratio"] < first["ratio_high"]
    assert "P1" in answer["summary"]
    assert "4 of 4 mismatches" in answer["summary"]


@pytest.mark.parametrize(("params", "field"), [({"window": "soon"}, "window"), ({"limit": "0"}, "limit")])
def test_bad_parameters_are_named(server: Server, params: dict[str, str], field: str) -> None:
    answer = server.http.get("/culprits", params=params)
    assert answer.status_code == 422
    assert answer.json()["field"] == field


def test_an_empty_collector_names_nobody(server: Server) -> None:
    answer = server.http.get("/culprits").json()
    assert answer["culprits"] == []
    assert answer["summary"] == "no rooms were compared in this window"


def test_the_command(bad_pair: Server) -> None:
    run = CliRunner().invoke(app, ["culprits", "--url", bad_pair.url])
    assert run.exit_code == 0, run.output
    assert "4 of 4 mismatches" in run.output
    as_json = CliRunner().invoke(app, ["culprits", "--json", "--url", bad_pair.url])
    assert json.loads(as_json.output)["mismatches"] == 4
