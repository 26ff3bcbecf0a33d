"""Who this worker is, from the engine's own arguments."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterable
from typing import Any

LOOPBACK = ("127.0.0.1", "localhost", "::1")
ANY = ("", "0.0.0.0", "::", None)  # noqa: S104 - addresses that are recognised, none is bound


def transfer_name(manager: Any) -> str:
    """The name by which peers know this rank in the transfer engine: its session or agent."""
    ask = getattr(manager, "get_session_id", None)
    if callable(ask):
        return str(ask())
    agent = getattr(manager, "agent", None)
    if agent is not None and hasattr(agent, "name"):
        return str(agent.name)
    described = getattr(manager, "engine_desc", None)
    return str(getattr(described, "key", ""))


def bootstrap_aliases(server_args: Any, manager: Any) -> list[str]:
    """Addresses under which decode servers may know this prefill server's bootstrap: ``host:port``."""
    port = getattr(server_args, "disaggregation_bootstrap_port", None)
    if not port:
        return []
    host = getattr(server_args, "host", None)
    names = [host, getattr(manager, "local_ip", None), getattr(manager, "bootstrap_host", None)]
    if host in LOOPBACK:
        names.extend(LOOPBACK[:2])
    return _distinct(f"{name}:{port}" for name in names if name not in ANY)


def rank_of(kv_args: Any, server_args: Any) -> int:
    """A number for this rank that is unique within its server."""
    tp = int(getattr(server_args, "tp_size", 1) or 1)
    pp = int(getattr(server_args, "pp_size", 1) or 1)
    pipeline = int(getattr(kv_args, "pp_rank", 0) or 0)
    replica = int(getattr(kv_args, "system_dp_rank", 0) or 0)
    return (replica * pp + pipeline) * tp + int(getattr(kv_args, "engine_rank", 0) or 0)


def server_name(server_args: Any, side: str) -> str:
    """A name for the engine instance that all its ranks agree on."""
    leader = getattr(server_args, "dist_init_addr", None)
    host = str(leader).rsplit(":", maxsplit=1)[0] if leader else host_name()
    return f"{side}@{host}:{getattr(server_args, 'port', 0)}"


def heads_of(pool: Any, scheduler: Any) -> tuple[int, int]:
    """(KV heads in this rank, KV heads of the model); zeros where heads are not divided or not known."""
    inner = getattr(pool, "full_kv_pool", pool)
    count = getattr(getattr(scheduler, "model_config", None), "get_total_num_kv_heads", None)
    if not hasattr(inner, "k_buffer") or not callable(count):
        return 0, 0
    return int(getattr(inner, "head_num", 0) or 0), int(count())


def host_name() -> str:
    """This machine's name; the pod's where Kubernetes says it."""
    return os.environ.get("POD_NAME") or os.environ.get("HOSTNAME") or socket.gethostname()


def gpu_of(kv_args: Any) -> str:
    """The device's UUID, where torch can say it without work; else its number."""
    number = getattr(kv_args, "gpu_id", None)
    try:
        import torch  # noqa: PLC0415 - the engine's own

        if torch.cuda.is_available() and number is not None:
            return str(getattr(torch.cuda.get_device_properties(int(number)), "uuid", number))
    except Exception:  # noqa: S110 - a label is worth no fault
        pass
    return ""


def _distinct(names: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(names))
