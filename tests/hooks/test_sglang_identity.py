"""Who a worker is, by the engine's arguments: ranks, names, addresses by which peers know it."""

from __future__ import annotations

from types import SimpleNamespace as Record
from typing import Any

import pytest

from pd_tracer_hooks.sglang import identity


@pytest.mark.parametrize(
    ("manager", "name"),
    [
        (Record(get_session_id=lambda: "10.0.0.1:7000"), "10.0.0.1:7000"),
        (Record(agent=Record(name="7f3c")), "7f3c"),
        (Record(engine_desc=Record(key="mori-1")), "mori-1"),
        (Record(), ""),
    ],
)
def test_name_in_the_transfer_engine(manager: Any, name: str) -> None:
    assert identity.transfer_name(manager) == name


@pytest.mark.parametrize(
    ("host", "expected"),
    [
        ("127.0.0.1", ["127.0.0.1:8998", "10.0.0.1:8998", "localhost:8998"]),
        ("0.0.0.0", ["10.0.0.1:8998"]),
        ("node-1", ["node-1:8998", "10.0.0.1:8998"]),
    ],
)
def test_addresses_of_the_bootstrap_server(host: str, expected: list[str]) -> None:
    args = Record(host=host, disaggregation_bootstrap_port=8998)
    assert identity.bootstrap_aliases(args, Record(local_ip="10.0.0.1")) == expected


def test_no_bootstrap_server_no_address() -> None:
    assert identity.bootstrap_aliases(Record(host="h", disaggregation_bootstrap_port=None), Record()) == []


def test_ranks_are_unique_within_a_server() -> None:
    args = Record(tp_size=4, pp_size=2)
    ranks = {
        identity.rank_of(Record(engine_rank=tp, pp_rank=pp, system_dp_rank=dp), args)
        for tp in range(4)
        for pp in range(2)
        for dp in range(3)
    }
    assert ranks == set(range(24))


def test_all_ranks_of_a_server_name_it_alike(monkeypatch: pytest.MonkeyPatch) -> None:
    args = Record(dist_init_addr="10.0.0.1:5000", port=30000)
    monkeypatch.setenv("POD_NAME", "pod-a")
    one = identity.server_name(args, "decode")
    monkeypatch.setenv("POD_NAME", "pod-b")
    assert identity.server_name(args, "decode") == one == "decode@10.0.0.1:30000"
    assert identity.server_name(Record(port=30000), "prefill") == "prefill@pod-b:30000"


@pytest.mark.parametrize(
    ("pool", "heads"),
    [
        (Record(k_buffer=[], head_num=2), (2, 8)),
        (Record(full_kv_pool=Record(k_buffer=[], head_num=4)), (4, 8)),
        (Record(kv_buffer=[]), (0, 0)),
    ],
)
def test_heads_of_a_rank(pool: Any, heads: tuple[int, int]) -> None:
    scheduler = Record(model_config=Record(get_total_num_kv_heads=lambda: 8))
    assert identity.heads_of(pool, scheduler) == heads
