"""Imported by every interpreter that finds this folder in its path: attaches when the engine is imported.

Another ``sitecustomize`` further down the path is run as well: this one only stands before it.
"""

import importlib.machinery
import importlib.util
import os
import sys


def _run_the_next() -> None:
    here = os.path.dirname(os.path.abspath(__file__))
    others = [place for place in sys.path if os.path.abspath(place or ".") != here]
    spec = importlib.machinery.PathFinder.find_spec("sitecustomize", others)
    if spec is not None and spec.loader is not None:
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)


try:
    _run_the_next()
finally:
    if os.environ.get("PD_TRACER_URL", "").strip():
        try:
            from pd_tracer_hooks.sglang.on_import import watch

            watch()
        except Exception as fault:  # the host comes first
            print(f"pd-tracer: not attached: {fault!r}", file=sys.stderr)
