"""What a worker says once of its pools and of what its transfer moves."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from pd_tracer_hooks.capture import Plan
from pd_tracer_hooks.digest.backend import Pool
from pd_tracer_hooks.layout import signature
from pd_tracer_hooks.wire import Manifest, ManifestComponent, Setup


@dataclass(frozen=True)
class Holdings:
    """The pools of a worker, the components that its transfer moves (None: all), how the hooks stand."""

    pools: Sequence[Pool]
    moved: Collection[str] | None
    setup: Setup | None = None

    def manifest(self, plan: Plan, *, seq: int, at: float) -> Manifest:
        """The record that says so."""
        return Manifest(
            seq=seq, at=at, components=[self._component(plan, pool) for pool in self.pools], setup=self.setup
        )

    def _component(self, plan: Plan, pool: Pool) -> ManifestComponent:
        fields = plan.signature_fields(pool)
        return ManifestComponent(
            name=pool.component,
            signature=signature(fields),
            fields=fields,
            layers=sorted(pool.buffers),
            moved=self.moved is None or pool.component in self.moved,
        )
