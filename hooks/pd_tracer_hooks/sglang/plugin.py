"""The entry point ``sglang.srt.plugins``: SGLang calls :func:`register` in every process it spawns.

This module imports nothing but the standard library at its top. Without ``PD_TRACER_URL`` it does
nothing: no wrapper, no import of torch or of the engine.
"""

from __future__ import annotations

import os

URL = "PD_TRACER_URL"


def register() -> None:
    """Attach the hooks if ``PD_TRACER_URL`` is set. Never raises."""
    if not os.environ.get(URL, "").strip():
        return
    _attach()


def attach() -> None:
    """Attach by hand, where the engine has no plugins (0.5.9): call it before the server is built.

    The same as :func:`register`; ``python -m pd_tracer_hooks.launch`` does it in the processes that the
    engine spawns, too.
    """
    register()


def _attach() -> None:
    try:
        from pd_tracer_hooks.sglang.process import attach_process  # noqa: PLC0415 - only when switched on

        attach_process()
    except Exception:
        import logging  # noqa: PLC0415

        logging.getLogger("pd_tracer").exception("pd-tracer: not attached")
