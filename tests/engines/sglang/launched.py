"""What ``pd_tracer_hooks.launch`` is tried on: a module that spawns a process which imports the scheduler."""

from __future__ import annotations

import json
import multiprocessing
import sys


def child(pipe) -> None:  # type: ignore[no-untyped-def]
    import sglang.srt.managers.scheduler  # noqa: F401 - as a scheduler process does

    process = sys.modules.get("pd_tracer_hooks.sglang.process")
    here = process.current() if process is not None else None
    pipe.send(
        None if here is None else [[item.path, item.attached, item.reason] for item in here.attachments]
    )


if __name__ == "__main__":
    context = multiprocessing.get_context("spawn")
    mine, theirs = context.Pipe()
    process = context.Process(target=child, args=(theirs,))
    process.start()
    print("@" + json.dumps({"arguments": sys.argv[1:], "attachments": mine.recv()}))
    process.join()
