"""Puts the hooks on the engine's functions, by its plugin registry where it has one, else directly.

What attached and what did not, with the reason, is kept for the collector: the engine itself only logs
a target that it could not patch.
"""

from __future__ import annotations

import functools
import pkgutil
import sys
import types
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Protocol

from pd_tracer_hooks.sglang.binding import Binder, Call
from pd_tracer_hooks.sglang.targets import ROOT, Target, When

#: A handler as the hub has it. ``around`` ones also take the original, already bound to its arguments.
Handler = Callable[..., Any]


@dataclass(frozen=True)
class Attachment:
    """What became of one target."""

    path: str
    attached: bool
    reason: str = ""


class Installer(Protocol):
    """One way to replace a function of the engine."""

    name: str

    def install(self, path: str, wrap: Callable[[Callable[..., Any]], Callable[..., Any]]) -> None:
        """Replace the function at ``path`` by ``wrap(function)``. Raises what stands in the way."""
        ...


class Hub(Protocol):
    """Who is told of the engine's calls. Lets no fault of its own out (but in tests, on purpose)."""

    def before(self, target: Target, call: Call) -> None:
        """Before the engine's function."""
        ...

    def after(self, target: Target, call: Call) -> None:
        """After it returned; its result is ``call["result"]``."""
        ...

    def around(self, target: Target, call: Call, original: Callable[[], Any]) -> Any:
        """In place of it: must call ``original`` exactly once and give back what it gives."""
        ...

    def misfit(self, target: Target, fault: Exception) -> None:
        """A call's arguments could not be bound."""
        ...


class DirectInstaller:
    """Sets the attribute itself, and again in every module that had imported the function by name."""

    name = "direct"

    def install(self, path: str, wrap: Callable[[Callable[..., Any]], Callable[..., Any]]) -> None:
        """Replace the function at ``path``. Raises ``ImportError`` or ``AttributeError`` without one."""
        owner, name = _owner(path)
        raw = owner.__dict__.get(name) if isinstance(owner, type) else None
        original = raw.__func__ if isinstance(raw, classmethod | staticmethod) else getattr(owner, name)
        wrapped: Any = wrap(original)
        replaced = type(raw)(wrapped) if isinstance(raw, classmethod | staticmethod) else wrapped
        setattr(owner, name, replaced)
        if isinstance(owner, types.ModuleType):
            _rebind(original, wrapped, owner)


class RegistryInstaller:
    """Goes through the engine's own registry, so that other plugins' hooks on the same function are kept."""

    name = "registry"

    def __init__(self, registry: Any, around: Any) -> None:
        self._registry = registry
        self._around = around

    def install(self, path: str, wrap: Callable[[Callable[..., Any]], Callable[..., Any]]) -> None:
        """Register and apply. Raises ``LookupError`` if the engine did not patch the function."""
        if path in getattr(self._registry, "_patched", ()):
            # Another plugin's hook is in place already, and the registry applies a path only once.
            DirectInstaller().install(path, wrap)
            return
        owner, name = _owner(path)
        wrapped_by: dict[Any, Callable[..., Any]] = {}

        def hook(original: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
            wrapped = wrapped_by.get(original)
            if wrapped is None:
                wrapped = wrapped_by[original] = wrap(original)
            return wrapped(*args, **kwargs)

        # Wrapped once here too: a signature that does not fit must show before anything is registered.
        wrap(getattr(owner, name))
        self._registry.register(path, hook, self._around)
        self._registry.apply_hooks()
        if path not in getattr(self._registry, "_patched", frozenset({path})):
            raise LookupError("the engine's hook registry did not patch it (its log says why)")


class MisfitError(Exception):
    """A function that lacks parameters which the hook needs."""


def best_installer() -> Installer:
    """The engine's registry where this release has one (0.5.11 on), else the direct way."""
    try:
        from sglang.srt.plugins.hook_registry import HookRegistry, HookType  # noqa: PLC0415
    except ImportError:
        return DirectInstaller()
    return RegistryInstaller(HookRegistry, HookType.AROUND)


def attach(targets: Iterable[tuple[Target, str]], installer: Installer, hub: Hub) -> list[Attachment]:
    """Hook each (target, dotted path). One that fails costs no other. Never raises."""
    return [_attach_one(target, path, installer, hub) for target, path in targets]


def method_owner(cls: type, method: str) -> type | None:
    """The class in ``cls``'s line that defines ``method``."""
    return next((base for base in cls.__mro__ if method in base.__dict__), None)


def _attach_one(target: Target, path: str, installer: Installer, hub: Hub) -> Attachment:
    try:
        installer.install(path, lambda original: _wrap(original, target, hub))
    except MisfitError as fault:
        return Attachment(path, False, str(fault))
    except Exception as fault:
        return Attachment(path, False, f"{type(fault).__name__}: {fault}"[:512])
    return Attachment(path, True)


def _wrap(original: Callable[..., Any], target: Target, hub: Hub) -> Callable[..., Any]:
    binder = Binder(original, target.needs)
    if binder.missing:
        raise MisfitError(
            f"has no parameter {', '.join(binder.missing)} (it has {', '.join(binder.parameters)})"
        )

    @functools.wraps(original)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        try:
            call = binder.bind(args, kwargs)
        except Exception as fault:
            hub.misfit(target, fault)
            return original(*args, **kwargs)
        if target.when is When.around:
            return hub.around(target, call, lambda: original(*args, **kwargs))
        if target.when is When.before:
            hub.before(target, call)
            return original(*args, **kwargs)
        result = original(*args, **kwargs)
        hub.after(target, Call({**call, "result": result}))
        return result

    return wrapper


def _owner(path: str) -> tuple[Any, str]:
    place, _, name = path.rpartition(".")
    return pkgutil.resolve_name(place), name


def _rebind(original: Any, wrapped: Any, home: types.ModuleType) -> None:
    for module in list(sys.modules.values()):
        if module is home or not getattr(module, "__name__", "").startswith(ROOT.split(".", maxsplit=1)[0]):
            continue
        for name, value in list(vars(module).items()):
            if value is original:
                setattr(module, name, wrapped)
