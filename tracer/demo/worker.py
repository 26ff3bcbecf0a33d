"""Entry point of a worker process: ``python -m tracer.demo.worker``, driven over its pipes."""

from __future__ import annotations

import os
import sys
import traceback
from contextlib import suppress

from tracer.demo.messages import Trouble, WorkerConfig
from tracer.demo.process import OrphanedError, Pipes


def main() -> int:
    """Run the worker that the first line describes. Returns the exit status."""
    pipes = Pipes()
    try:
        config = pipes.hear(WorkerConfig)
        if config.side == "prefill":
            from tracer.demo.prefill import Prefill  # noqa: PLC0415 - loads torch

            pipes.say(Prefill(config, pipes).run())
        else:
            from tracer.demo.decode import Decode  # noqa: PLC0415 - loads torch

            pipes.say(Decode(config, pipes).run())
    except OrphanedError:
        return 3
    except Exception as error:
        traceback.print_exc()
        with suppress(BrokenPipeError):
            pipes.say(Trouble(text=f"{type(error).__name__}: {error}"))
        return 1
    return 0


if __name__ == "__main__":
    status = main()
    sys.stderr.flush()
    # NIXL's teardown can hang when a peer is gone; nothing is left to save.
    os._exit(status)
