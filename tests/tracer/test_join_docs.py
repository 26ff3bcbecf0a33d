"""docs/verdicts.md against the code."""

from __future__ import annotations

import re
from pathlib import Path

from tracer.join.exoneration import gaps_of
from tracer.join.model import DECIDED_EARLY, PRECEDENCE, Cause, Policy, Shape, Verdict

PAGE = (Path(__file__).parents[2] / "docs" / "verdicts.md").read_text()


def test_every_verdict_has_its_row() -> None:
    table = PAGE.split("## The list")[1].split("\n## ")[0]
    first_cells = [line.split("|")[1] for line in table.splitlines() if line.startswith("| `")]
    names = [name for cell in first_cells for name in re.findall(r"`(\w+)`", cell)]
    assert sorted(names) == sorted(verdict.value for verdict in Verdict)


def test_the_order_is_the_codes() -> None:
    text = PAGE.split("**Worst first:**")[1].split(". The")[0]
    assert re.findall(r"`(\w+)`", text) == [verdict.value for verdict in PRECEDENCE]
    assert set(PRECEDENCE[:3]) == DECIDED_EARLY


def test_every_verdict_but_pending_has_a_rank() -> None:
    assert {*PRECEDENCE, Verdict.pending} == set(Verdict)
    assert len(PRECEDENCE) == len(set(PRECEDENCE))


def test_deadlines_are_the_defaults() -> None:
    assert f"`PD_TRACER_OPEN_DEADLINE_S`, {Policy().open_deadline_s:g} s" in PAGE
    assert f"`PD_TRACER_SEND_DEADLINE_S`, {Policy().send_deadline_s:g} s" in PAGE


def test_every_cause_has_its_row_in_the_order_in_which_they_are_asked() -> None:
    table = PAGE.split("\n## Causes")[1].split("\n## ")[0]
    rows = [line for line in table.splitlines() if line.startswith("| `")]
    assert [row.split("`")[1] for row in rows] == [cause.value for cause in Cause]
    assert {row.count(" | ") for row in rows} == {3}


def test_every_shape_is_named() -> None:
    text = PAGE.split("### Shape")[1].split("\n## ")[0]
    assert {shape.value for shape in Shape} <= set(re.findall(r"`(\w+)`", text))


def test_what_an_exoneration_leaves_open_is_listed() -> None:
    text = PAGE.split("\n## Exonerated")[1].split("\n## ")[0]
    assert text.count("\n- ") == len(gaps_of(("kv",), frozenset(), 3))
