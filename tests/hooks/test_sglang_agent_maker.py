"""What an agent is made of: the one backend, the layers of the whole model, and who hears what is wanted."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from support.sglang_fakes import dsa, dsa_args

from pd_tracer_hooks import agent as agent_module
from pd_tracer_hooks.capture import Plan
from pd_tracer_hooks.digest.backend import Pool
from pd_tracer_hooks.digest.cpu import CpuBackend
from pd_tracer_hooks.guard import Guard
from pd_tracer_hooks.settings import Settings
from pd_tracer_hooks.sglang import agent_maker
from pd_tracer_hooks.sglang.agent_maker import AgentMaker
from pd_tracer_hooks.sglang.pools import take_inventory
from pd_tracer_hooks.wire import Side, Want

SETTINGS = Settings(url="http://127.0.0.1:9", deployment="d", layers="ends")


def made(monkeypatch: pytest.MonkeyPatch, *, pp_size: int = 1) -> tuple[Any, CpuBackend, list[Want]]:
    """An agent of a DSA worker whose layer 1 owns no index-K, the backend taken, and what was heard."""
    backend, heard = CpuBackend(), list[Want]()
    chosen = iter([backend])  # a second choice would take a device's memory again

    def choose() -> CpuBackend:
        return next(chosen)

    monkeypatch.setattr(agent_maker, "choose_backend", choose)
    monkeypatch.setattr(agent_module, "choose_backend", choose)
    monkeypatch.setattr(AgentMaker, "_findings", lambda *_: [])
    one = dsa(layers=3, owning=(0, 2))
    arguments = dsa_args(one)
    arguments.engine_rank, arguments.gpu_id, arguments.ib_device = 0, 0, None
    server_args = SimpleNamespace(pp_size=pp_size, served_model_name="m", host="127.0.0.1", port=1)
    manager = SimpleNamespace(kv_args=arguments, server_args=server_args)
    scheduler = SimpleNamespace(server_args=server_args, model_config=SimpleNamespace(num_hidden_layers=3))
    maker = AgentMaker(SETTINGS, Guard(3, raising=True), None, "0.5.23")  # type: ignore[arg-type]
    maker.on_wanted = heard.extend
    maker.take_memory()
    maker.take_memory()
    agent, _ = maker(manager, scheduler, take_inventory(arguments, one), Side.decode)
    return agent, backend, heard


def test_the_memory_taken_before_the_pools_is_the_agent_s(monkeypatch: pytest.MonkeyPatch) -> None:
    agent, backend, _ = made(monkeypatch)
    assert agent._backend is backend


@pytest.mark.parametrize(("pp_size", "chosen"), [(1, (0, 2)), (2, (0, 1, 2))])
def test_layers_are_chosen_among_those_that_own_a_buffer(
    monkeypatch: pytest.MonkeyPatch, pp_size: int, chosen: tuple[int, ...]
) -> None:
    agent, _, _ = made(monkeypatch, pp_size=pp_size)
    plan: Plan = agent._plan
    pool = Pool("index_k", SimpleNamespace(), dict.fromkeys(range(3)))  # type: ignore[arg-type]
    look = SimpleNamespace(pool=pool, layers=None)
    assert plan.layers(look, "r") == chosen  # type: ignore[arg-type]


def test_a_closer_look_that_is_wanted_reaches_the_session(monkeypatch: pytest.MonkeyPatch) -> None:
    agent, _, heard = made(monkeypatch)
    agent._wanted([Want(kind="deep", for_s=60.0)])
    assert [want.kind for want in heard] == ["deep"]
