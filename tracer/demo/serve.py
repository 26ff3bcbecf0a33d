"""``pd-tracer serve`` as a child of the demo: it ends when the process that started it is gone."""

from __future__ import annotations

import os
import signal
import threading

from tracer.cli.main import app


def _end_with_starter() -> None:
    """Nothing is ever written to our stdin, so it becomes readable only when the other end is closed."""
    os.read(0, 1)
    os.kill(os.getpid(), signal.SIGTERM)


if __name__ == "__main__":
    threading.Thread(target=_end_with_starter, daemon=True).start()
    app(["serve"])
