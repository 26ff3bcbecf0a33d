"""The transfer backend that a server uses: its name, and the methods of its classes that are hooked."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import Any

from pd_tracer_hooks.sglang.attach import method_owner
from pd_tracer_hooks.sglang.targets import Of, Target, rows
from pd_tracer_hooks.wire import Side


def backend_name(manager: Any) -> str:
    """The transfer backend by the manager's module: ``mooncake`` for ``…disaggregation.mooncake.conn``."""
    for cls in type(manager).__mro__:
        parts = cls.__module__.split(".")
        if len(parts) >= 2 and parts[-1] == "conn" and parts[-2] != "common":
            return parts[-2]
    return type(manager).__name__


def backend_targets(version: str, manager: type, side: Side) -> Iterable[tuple[Target, str]]:
    """(target, dotted path) for the methods of ``manager``'s class and of those beside it, on one side."""
    classes = {Of.manager: manager, **_companions(manager)}
    for target in rows(version):
        if target.of is None or (target.side and target.side != side.value):
            continue
        cls = classes.get(target.of)
        owner = method_owner(cls, target.path) if cls is not None else None
        home = owner or cls or manager
        yield target, f"{home.__module__}.{home.__qualname__}.{target.path}"


def _companions(manager: type) -> dict[Of, type]:
    """The sender and receiver classes that stand beside a manager's class."""
    found: dict[Of, type] = {}
    for cls in manager.__mro__:
        for value in (
            vars(sys.modules.get(cls.__module__, object())).values() if cls.__module__ in sys.modules else ()
        ):
            if not isinstance(value, type) or value.__module__ != cls.__module__:
                continue
            for of in (Of.sender, Of.receiver):
                if value.__name__.endswith(f"KV{of.value}"):
                    found.setdefault(of, value)
    return found
