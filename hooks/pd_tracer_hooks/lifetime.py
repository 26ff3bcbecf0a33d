"""What happens to agents when their process ends, and in a child that is forked from it."""

from __future__ import annotations

import atexit
import logging
import os
import weakref
from typing import Protocol

_log = logging.getLogger("pd_tracer")


class Cared(Protocol):
    """Something with threads and a connection."""

    def close(self) -> bool:
        """Deliver what there is, within a deadline."""
        ...

    def after_fork(self) -> None:
        """In the child: make everything anew that belongs to one process."""
        ...


_cared: weakref.WeakSet[Cared] = weakref.WeakSet()


def care_for(agent: Cared) -> None:
    """Close ``agent`` at the interpreter's exit, and tell it when it finds itself in a forked child."""
    _cared.add(agent)


@atexit.register
def _close_all() -> None:
    for agent in list(_cared):
        try:
            agent.close()
        except Exception as error:
            _log.warning("pd-tracer: a fault while closing: %s", error, exc_info=error)


def _fork_all() -> None:
    for agent in list(_cared):
        agent.after_fork()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_fork_all)
