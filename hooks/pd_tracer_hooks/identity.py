"""Who this worker is, from its settings and its environment."""

from __future__ import annotations

import os
import socket
import uuid
from collections.abc import Mapping, Sequence

from pd_tracer_hooks.settings import Settings
from pd_tracer_hooks.texts import fit
from pd_tracer_hooks.version import __version__
from pd_tracer_hooks.wire import Side, Worker

#: Aliases that a report has room for.
MAX_ALIASES = 64


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
    """Describe this process.

    The node comes from ``NODE_NAME`` or ``K8S_NODE_NAME``, the pod from ``POD_NAME``, as Kubernetes' downward
    API is commonly used to set them; within Kubernetes ``HOSTNAME`` is the pod's name too.
    """
    environ = os.environ if environ is None else environ
    pod = environ.get("POD_NAME") or (
        environ.get("HOSTNAME", "") if "KUBERNETES_SERVICE_HOST" in environ else ""
    )
    return Worker(
        id=f"{settings.server}/{side.value}-{rank}",
        boot=new_boot(),
        deployment=settings.deployment,
        side=side,
        server=settings.server,
        rank=rank,
        model=fit(model),
        host=fit(socket.gethostname()),
        node=fit(environ.get("NODE_NAME") or environ.get("K8S_NODE_NAME", "")),
        pod=fit(pod),
        gpu=fit(gpu),
        nic=fit(nic),
        engine=engine,
        engine_version=engine_version,
        hooks_version=__version__,
        fingerprint=fingerprint,
        config_hash=config_hash,
        run=settings.run,
        aliases=[alias for alias in dict.fromkeys(map(fit, aliases)) if alias][:MAX_ALIASES],
    )
