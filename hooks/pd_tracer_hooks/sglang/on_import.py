"""Attaches right after the engine's scheduler module was imported, where no plugin system calls us."""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import importlib.util
import sys
from collections.abc import Sequence
from types import ModuleType
from typing import Any

from pd_tracer_hooks.sglang.plugin import attach

#: Imported in the process that owns the pools, after all that is hooked, before anything is built.
MODULE = "sglang.srt.managers.scheduler"


class _Watch(importlib.abc.MetaPathFinder):
    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if name != MODULE:
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        if spec is None or spec.loader is None:
            return spec
        loader: Any = spec.loader
        execute = loader.exec_module

        def exec_module(module: ModuleType) -> None:
            execute(module)
            attach()

        loader.exec_module = exec_module
        return spec


def watch() -> None:
    """Attach when the module is imported; at once if it is there already. Safe to call twice."""
    if MODULE in sys.modules:
        attach()
    elif not any(isinstance(finder, _Watch) for finder in sys.meta_path):
        sys.meta_path.insert(0, _Watch())
