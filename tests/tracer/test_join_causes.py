"""Rules that name a cause: the first that holds is believed, and none is needed."""

from __future__ import annotations

from support.rooms import KV

from tracer.join.causes import Evidence, Rule, cause_of
from tracer.join.model import Cause, Where
from tracer.join.parts import Part, add_up

EVIDENCE = Evidence(
    component="kv",
    prefill=add_up("prefill", [Part("p0", KV.part(), None)]),
    decode=add_up("decode", [Part("d0", KV.part(damage={(0, 0)}), None)]),
    where=Where(regions=["head"]),
    prefill_entries=[],
    decode_entries=[],
)


def test_without_a_rule_that_holds_a_mismatch_is_unexplained() -> None:
    assert cause_of(EVIDENCE) is Cause.unexplained
    assert cause_of(EVIDENCE, [lambda _: None]) is Cause.unexplained


def test_rules_are_asked_in_order_until_one_holds() -> None:
    asked: list[str] = []

    def rule(name: str, answer: Cause | None) -> Rule:
        def ask(evidence: Evidence) -> Cause | None:
            asked.append(f"{name} {evidence.component}")
            return answer

        return ask

    rules = [rule("first", None), rule("second", Cause.unexplained), rule("third", None)]
    assert cause_of(EVIDENCE, rules) is Cause.unexplained
    assert asked == ["first kv", "second kv"]
