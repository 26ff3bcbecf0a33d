"""Who this worker is, from its settings and its environment."""

from __future__ import annotations

import os
import socket
import uuid
from collections.abc import Mapping, Sequence

from pd_tracer_hooks.settings import Settings
from pd_tracer_hooks.version import __version__
from pd_tracer_hooks.wire import Side, Worker


def new_boot() -> str:
    """A name for one life of a process. A fork needs a new one: its records count from 0 again."""
    return uuid.uuid4().hex


def describe_worker(
    settings: Settings,
    *,
    side: Side,
    rank: int = 0,
    model: str = "",
    gpu: str = "",
    nic: str = "",
    engine: str = "",
    engine_version: str = "",
    fingerprint: str = "",
    config_hash: str = "",
    aliases: Sequence[str] = (),
    environ: Mapping[str, str] | None = None,
) -> Worker:
    """Describe this process. Node and pod come from ``NODE_NAME`` and ``POD_NAME``, as Kubernetes' downward
    API is commonly used to set them.
    """
    environ = os.environ if environ is None else environ
    return Worker(
        id=f"{settings.server}/{side.value}-{rank}",
        boot=new_boot(),
        deployment=settings.deployment,
        side=side,
        server=settings.server,
        rank=rank,
        model=model,
        host=socket.gethostname(),
        node=environ.get("NODE_NAME", ""),
        pod=environ.get("POD_NAME", ""),
        gpu=gpu,
        nic=nic,
        engine=engine,
        engine_version=engine_version,
        hooks_version=__version__,
        fingerprint=fingerprint,
        config_hash=config_hash,
        run=settings.run,
        aliases=list(aliases),
    )
