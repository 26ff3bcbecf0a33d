"""What the manifests lead one to expect of a transfer."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import Enum

from pd_tracer_hooks.wire import Manifest, ManifestComponent
from tracer.join.model import Manifests


class Says(Enum):
    """What one side's manifests say of a component."""

    unknown = "no manifest"
    absent = "does not have it"
    held = "has it and does not move it"
    moved = "moves it"


class SideManifest:
    """The manifests of one side's workers, taken together.

    It is known only when each of ``workers`` (id, boot) has one. Ranks of a pipeline may hold different
    components, so a component is moved when any of them moves it.
    """

    __slots__ = ("_components", "known")

    def __init__(self, workers: Iterable[tuple[str, str]], manifests: Manifests) -> None:
        found: list[Manifest | None] = [manifests.get(worker) for worker in workers]
        self.known = bool(found) and None not in found
        self._components: dict[str, list[ManifestComponent]] = {}
        for manifest in found:
            for component in manifest.components if manifest else ():
                self._components.setdefault(component.name, []).append(component)

    @property
    def names(self) -> Iterable[str]:
        """Components that any of the workers has."""
        return self._components

    def says(self, name: str) -> Says:
        """What this side says of a component."""
        components = self._components.get(name)
        if components is None:
            return Says.absent if self.known else Says.unknown
        if any(component.moved for component in components):
            return Says.moved
        return Says.held if self.known else Says.unknown

    def layers(self, name: str) -> list[list[int]]:
        """Global ids of the layers that this side has of a component, a list a worker."""
        return [component.layers for component in self._components.get(name, ())]

    def fields(self, name: str, signature: str) -> Mapping[str, str]:
        """What a signature was made of, as far as a manifest says."""
        for component in self._components.get(name, ()):
            if component.signature == signature and component.fields:
                return component.fields
        return {}


def expected_names(prefill: SideManifest, decode: SideManifest) -> set[str]:
    """Components that a transfer must account for even when neither side reports them.

    With one side's manifest unknown these are only the ones that the other says it does not move.
    """
    names = {*prefill.names, *decode.names}
    if prefill.known and decode.known:
        return names
    return {name for name in names if Says.held in (prefill.says(name), decode.says(name))}


def not_moved_by(name: str, prefill: SideManifest, decode: SideManifest) -> str:
    """Which side's manifest says that a component is not moved, as a sentence; empty if none does."""
    for side, manifest in (("prefill", prefill), ("decode", decode)):
        says = manifest.says(name)
        if says in (Says.absent, Says.held):
            return f"by its manifest {side} {says.value}"
    return ""


def layers_held(name: str, prefill: SideManifest, decode: SideManifest) -> int:
    """How many layers of a component the manifests of both sides list."""
    lists = prefill.layers(name) + decode.layers(name)
    if not lists:
        return 0
    # Most often every worker has the same layers.
    if all(layers == lists[0] for layers in lists[1:]):
        return len(set(lists[0]))
    return len({layer for layers in lists for layer in layers})
