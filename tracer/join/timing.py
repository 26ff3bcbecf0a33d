"""When, after ``receive``, a look was made: by the clock of the decode worker that made both."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tracer.join.looks import Look
from tracer.join.model import Timing


def timing_of(looks: Sequence[Look], received: Look, shows: Callable[[Look], bool | None]) -> Timing | None:
    """The first of ``looks`` (in order) that ``shows`` it, and the last before it that did not.

    A look that cannot tell is passed over. None when no look shows it, or no worker made both looks.
    """
    before, before_s = received.name, 0.0
    for look in looks:
        shown = shows(look)
        after = _after(received.read_at, look.read_at)
        if shown and after is not None:
            signal = _after(received.signalled_at, look.read_at)
            return Timing(
                look=look.name,
                after_receive_s=after,
                after_signal_s=signal,
                before=before,
                before_s=before_s,
            )
        if shown is False and after is not None:
            before, before_s = look.name, after
    return None


def _after(earlier: dict[str, float], later: dict[str, float]) -> float | None:
    """The longest time between both, over the workers that know both."""
    return max((later[worker] - earlier[worker] for worker in later if worker in earlier), default=None)
