"""``python -m pd_tracer_hooks.launch MODULE [ARGUMENTS]``: run an engine with the hooks, without its plugins.

For releases that load no plugins (SGLang 0.5.9). MODULE is run as ``python -m MODULE`` would. Processes
that it spawns get the hooks too: each imports this package's ``sitecustomize`` folder first, which waits
for the engine's scheduler module and attaches then. Without ``PD_TRACER_URL`` nothing is done at all.
"""

from __future__ import annotations

import os
import runpy
import sys
from pathlib import Path

#: Put in front of PYTHONPATH, so that spawned interpreters find its ``sitecustomize``.
INJECTED = Path(__file__).with_name("injected")


def main(arguments: list[str]) -> None:
    """Prepare the environment of processes to come, attach here, and run the module."""
    if not arguments or arguments[0].startswith("-"):
        print("usage: python -m pd_tracer_hooks.launch MODULE [ARGUMENTS]", file=sys.stderr)
        raise SystemExit(2)
    if os.environ.get("PD_TRACER_URL", "").strip():
        inject()
    module, sys.argv = arguments[0], arguments
    runpy.run_module(module, run_name="__main__", alter_sys=True)


def inject() -> None:
    """Let this process and those that it spawns attach once the engine's scheduler is imported."""
    paths = [str(INJECTED), *filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))]
    os.environ["PYTHONPATH"] = os.pathsep.join(dict.fromkeys(paths))
    from pd_tracer_hooks.sglang.on_import import watch  # noqa: PLC0415 - only when switched on

    watch()


if __name__ == "__main__":
    main(sys.argv[1:])
