"""The one place where the engine's calls arrive, and behind which no fault of ours gets out."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from pd_tracer_hooks.guard import Guard
from pd_tracer_hooks.sglang.binding import Call
from pd_tracer_hooks.sglang.targets import Target

Handlers = Mapping[str, Callable[..., Any]]


class Hub:
    """Gives each call to its handler, by name. Implements :class:`pd_tracer_hooks.sglang.attach.Hub`."""

    def __init__(self, handlers: Handlers, guard: Guard) -> None:
        self._handlers = handlers
        self._guard = guard

    def before(self, target: Target, call: Call) -> None:
        """Tell the handler; whatever it raises is counted."""
        if not self._guard.detached:
            with self._guard:
                self._handlers[target.handler](call)

    #: What comes after is told the same way; the call then carries its result.
    after = before

    def around(self, target: Target, call: Call, original: Callable[[], Any]) -> Any:
        """Let the handler call ``original``; what *that* raises goes through untouched, once."""
        if self._guard.detached:
            return original()
        once = _Once(original)
        with self._guard:
            try:
                self._handlers[target.handler](call, once)
            except BaseException as fault:
                if fault is not once.fault:
                    raise
        if not once.called:
            return original()
        if once.fault is not None:
            raise once.fault
        return once.result

    def misfit(self, target: Target, fault: Exception) -> None:
        """Count a call whose arguments did not bind."""
        with self._guard:
            raise TypeError(f"{target.path}: a call did not bind: {fault}") from fault


class _Once:
    """Calls the engine's function and remembers how it went."""

    __slots__ = ("_original", "called", "fault", "result")

    def __init__(self, original: Callable[[], Any]) -> None:
        self._original = original
        self.called = False
        self.fault: BaseException | None = None
        self.result: Any = None

    def __call__(self) -> Any:
        self.called = True
        try:
            self.result = self._original()
        except BaseException as fault:
            self.fault = fault
            raise
        return self.result
