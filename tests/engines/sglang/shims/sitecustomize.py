"""Lets a stock SGLang run on a machine without a GPU, for tests only.

Nothing here touches the disaggregation code. When torch is imported, three things are put right: two
operators that torchvision expects are declared, ``pin_memory`` is dropped from the factory functions, and
events and streams of ``torch.cuda`` become no-ops (copies are synchronous on a CPU, so there is nothing to
wait for). Where a GPU is present only the operators are declared.
"""

from __future__ import annotations

import importlib.abc
import importlib.util
import sys


class _AfterTorch(importlib.abc.MetaPathFinder):
    """Runs :func:`_prepare` once, right after torch was imported."""

    def find_spec(self, name, path, target=None):  # type: ignore[no-untyped-def]
        if name != "torch":
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        if spec is None or spec.loader is None:
            return spec
        execute = spec.loader.exec_module

        def exec_module(module):  # type: ignore[no-untyped-def]
            execute(module)
            import shim_torch

            shim_torch.prepare(module)

        spec.loader.exec_module = exec_module  # type: ignore[method-assign]
        return spec


sys.meta_path.insert(0, _AfterTorch())
