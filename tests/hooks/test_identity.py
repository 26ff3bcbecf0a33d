from __future__ import annotations

import pytest

from pd_tracer_hooks.identity import MAX_ALIASES, describe_worker
from pd_tracer_hooks.settings import Settings
from pd_tracer_hooks.version import __version__
from pd_tracer_hooks.wire import Side, Worker, decoder, encode

SETTINGS = Settings(url="http://c", deployment="d", server="D0", run="kv=bf16")


def test_a_worker_is_one_rank_of_one_server_in_one_life() -> None:
    first, second = (describe_worker(SETTINGS, side=Side.decode, rank=3, environ={}) for _ in range(2))
    assert (first.id, first.server, first.rank, first.deployment) == ("D0/decode-3", "D0", 3, "d")
    assert (first.run, first.hooks_version) == ("kv=bf16", __version__)
    assert first.id == second.id
    assert first.boot != second.boot


@pytest.mark.parametrize(
    ("environ", "node", "pod"),
    [
        ({}, "", ""),
        ({"NODE_NAME": "n1", "POD_NAME": "p1"}, "n1", "p1"),
        ({"K8S_NODE_NAME": "n2"}, "n2", ""),
        ({"HOSTNAME": "laptop"}, "", ""),
        ({"HOSTNAME": "p2", "KUBERNETES_SERVICE_HOST": "10.0.0.1"}, "", "p2"),
        ({"HOSTNAME": "h", "POD_NAME": "p3", "KUBERNETES_SERVICE_HOST": "10.0.0.1"}, "", "p3"),
    ],
)
def test_node_and_pod_come_from_kubernetes(environ: dict[str, str], node: str, pod: str) -> None:
    worker = describe_worker(SETTINGS, side=Side.prefill, environ=environ)
    assert (worker.node, worker.pod) == (node, pod)


def test_what_an_engine_says_is_made_to_fit_the_wire() -> None:
    aliases = ["", "a", "a", *map(str, range(2 * MAX_ALIASES)), "x" * 300]
    worker = describe_worker(
        SETTINGS, side=Side.prefill, model="m" * 300, gpu="g\0", nic="\ud800", aliases=aliases, environ={}
    )
    assert decoder(Worker).decode(encode(worker)) == worker
    assert worker.aliases[:2] == ["a", "0"]
    assert len(worker.aliases) == MAX_ALIASES
    assert (len(worker.model), worker.gpu, worker.nic) == (256, "g?", "?")


def test_the_longest_server_name_still_makes_an_id() -> None:
    settings = Settings(url="http://c", deployment="d", server="s" * 224)
    worker = describe_worker(settings, side=Side.prefill, rank=(1 << 20) - 1, environ={})
    assert decoder(Worker).decode(encode(worker)) == worker
