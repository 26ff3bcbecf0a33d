"""The configuration snapshot: comparable, and without secrets."""

from __future__ import annotations

from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import pytest

from pd_tracer_hooks.sglang.config_snapshot import HIDDEN, hash_of, take_snapshot


@dataclass
class Args:
    model_path: str = "m"
    port: int = 1
    api_key: str | None = "sk-1"
    max_total_tokens: int = 4
    tokenizer_path: str = "t"


def test_dataclass_arguments_and_environment() -> None:
    env = {"SGLANG_X": "1", "UCX_TLS": "tcp", "MC_FORCE_TCP": "1", "HOME": "/root", "SGLANG_AUTH_TOKEN": "x"}
    taken = take_snapshot(Args(), env)
    assert taken["args.model_path"] == "m"
    assert taken["args.max_total_tokens"] == "4"
    assert taken["args.tokenizer_path"] == "t"
    assert taken["args.api_key"] == HIDDEN
    assert taken["env.SGLANG_AUTH_TOKEN"] == HIDDEN
    assert taken["env.UCX_TLS"] == "tcp"
    assert "env.HOME" not in taken


@pytest.mark.parametrize(
    "args",
    [
        SimpleNamespace(model_path="m", _private=1),
        type("Record", (), {"__struct_fields__": ("model_path",), "model_path": "m"})(),
        type("Resolved", (), {"resolved_dict": lambda self: {"model_path": "m"}})(),
    ],
)
def test_every_kind_of_arguments_object(args: Any) -> None:
    assert take_snapshot(args, {}) == {"args.model_path": "m"}


def test_values_are_short_and_hold_no_addresses_or_passwords() -> None:
    args = SimpleNamespace(url="redis://u:p@h/0", fn=object(), long="x" * 5000)
    taken = take_snapshot(args, {})
    assert taken["args.url"] == "redis://h/0"
    assert "0x" not in taken["args.fn"]
    assert len(taken["args.long"]) == 512


def test_hash_leaves_out_what_differs_by_nature() -> None:
    one = hash_of(take_snapshot(Args(port=1), {"PD_TRACER_RUN": "a"}))
    assert one == hash_of(take_snapshot(Args(port=2), {"PD_TRACER_RUN": "b"}))
    assert one != hash_of(take_snapshot(Args(max_total_tokens=5), {}))
    assert one != hash_of(take_snapshot(Args(), {"UCX_TLS": "tcp"}))
