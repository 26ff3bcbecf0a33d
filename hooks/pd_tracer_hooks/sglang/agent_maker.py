"""The agent of a side, made once the engine's transfer manager tells who this worker is."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from pd_tracer_hooks.agent import Agent
from pd_tracer_hooks.digest.backend import DigestBackend
from pd_tracer_hooks.digest.choose import choose_backend
from pd_tracer_hooks.guard import Guard
from pd_tracer_hooks.identity import describe_worker
from pd_tracer_hooks.settings import Settings
from pd_tracer_hooks.sglang import config_snapshot, identity
from pd_tracer_hooks.sglang.backends import backend_name
from pd_tracer_hooks.sglang.fingerprints import Finding, Fit, Recorded, combined, examine
from pd_tracer_hooks.sglang.pools import Inventory
from pd_tracer_hooks.sglang.sources import SourceTree
from pd_tracer_hooks.wire import Side, Want

log = logging.getLogger("pd_tracer")


@dataclass(frozen=True)
class Described:
    """What was found out on the way to an agent: changed functions, and the worker's settings."""

    changed: list[str]
    config: dict[str, str]


class AgentMaker:
    """Makes the agent of a side, once the engine's manager tells who this worker is."""

    def __init__(self, settings: Settings, guard: Guard, tree: SourceTree, version: str) -> None:
        self._settings = settings
        self._guard = guard
        self._tree = tree
        self._version = version
        self._backend: DigestBackend | None = None
        #: Told of what the collector's answers ask for.
        self.on_wanted: Callable[[Sequence[Want]], None] | None = None

    def take_memory(self) -> None:
        """Make the digest's backend, and with it all the device memory that it will ever need. Once."""
        if self._backend is None:
            self._backend = choose_backend()

    def __call__(
        self, manager: Any, scheduler: Any, inventory: Inventory, side: Side
    ) -> tuple[Agent, Described]:
        """Describe the worker and start nothing yet."""
        args = getattr(scheduler, "server_args", None) or getattr(manager, "server_args", None)
        kv_args = manager.kv_args
        settings = self._settings
        if not os.environ.get("PD_TRACER_SERVER"):
            settings = replace(settings, server=identity.server_name(args, side.value))
        snapshot = config_snapshot.take_snapshot(args)
        names = [identity.transfer_name(manager)]
        if side is Side.prefill:
            names += identity.bootstrap_aliases(args, manager)
        findings = self._findings(manager)
        worker = describe_worker(
            settings,
            side=side,
            rank=identity.rank_of(kv_args, args),
            model=str(getattr(args, "served_model_name", None) or getattr(args, "model_path", "") or "")[
                :256
            ],
            gpu=identity.gpu_of(kv_args),
            nic=str(getattr(kv_args, "ib_device", None) or "")[:256],
            engine="sglang",
            engine_version=self._version,
            fingerprint=combined(findings),
            config_hash=config_snapshot.hash_of(snapshot),
            aliases=[name for name in dict.fromkeys(names) if name],
        )
        changed = [finding.path for finding in findings if finding.fit is Fit.changed]
        agent = Agent(
            settings,
            worker,
            backend=self._backend,
            model_layers=_model_layers(scheduler, inventory),
            owning_layers=_owning_layers(args, inventory),
            on_wanted=self.on_wanted,
            guard=self._guard,
        )
        return agent, Described(changed, snapshot)

    def _findings(self, manager: Any) -> list[Finding]:
        findings = examine(self._tree, self._version, Recorded.load(), [backend_name(manager)])
        for finding in findings:
            if finding.fit is Fit.changed:
                log.warning("pd-tracer: %s: %s", finding.path, finding.reason)
        return findings


def _owning_layers(args: Any, inventory: Inventory) -> dict[str, list[int]] | None:
    """Layers that own a buffer, by component; None where this rank holds a part of the model only."""
    if int(getattr(args, "pp_size", 1) or 1) > 1:
        return None
    return {component.name: sorted(component.pool.buffers) for component in inventory.moved}


def _model_layers(scheduler: Any, inventory: Inventory) -> int:
    held = [layer for component in inventory.components for layer in component.pool.buffers]
    named = getattr(getattr(scheduler, "model_config", None), "num_hidden_layers", 0) or 0
    return max(int(named), max(held, default=0) + 1)
