"""From the GPU's global timer to the host's wall clock.

Both count nanoseconds but drift apart by some parts in a million, so the offset is measured anew from
time to time, and a line is laid through the last two measurements. A measurement lets the GPU read its
timer between two looks at the host's clock, several times over: each bounds the offset from both sides.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

#: A reading: host's clock before, GPU's timer, host's clock after, all in ns.
Reading = tuple[int, int, int]

#: Two clocks in one machine drift apart by less than this.
MAX_DRIFT = 100e-6


@dataclass(frozen=True)
class Offset:
    """Host's clock minus GPU's timer, in ns, to within ``error``, when the GPU's timer stood at ``at``."""

    at: int
    offset: int
    error: int

    @classmethod
    def from_readings(cls, readings: Iterable[Reading]) -> Offset:
        """The offset that all readings allow. Raises ``ValueError`` without readings.

        If the host's clock was set meanwhile no offset may fit all of them; then the error spans the gap.
        """
        taken = list(readings)
        if not taken:
            raise ValueError("no readings: the offset of the GPU's timer needs at least one")
        low = max(before - gpu for before, gpu, _ in taken)
        high = min(after - gpu for _, gpu, after in taken)
        return cls(taken[-1][1], (low + high) // 2, (abs(high - low) + 1) // 2)


@dataclass(frozen=True)
class TimerMap:
    """Translates the GPU's timer by the latest offset and the drift since the one before."""

    latest: Offset
    drift: float = 0.0

    def updated(self, newer: Offset) -> TimerMap:
        """The map after another measurement. A drift beyond :data:`MAX_DRIFT` is a clock that was set."""
        elapsed = newer.at - self.latest.at
        drift = (newer.offset - self.latest.offset) / elapsed if elapsed > 0 else 0.0
        return TimerMap(newer, drift if abs(drift) <= MAX_DRIFT else 0.0)

    def host_seconds(self, gpu_ns: int) -> float:
        """The host's wall clock, in seconds, when the GPU's timer stood at ``gpu_ns``."""
        elapsed = gpu_ns - self.latest.at
        return (gpu_ns + self.latest.offset + round(self.drift * elapsed)) / 1e9

    def error_seconds(self) -> float:
        """How far :meth:`host_seconds` may be off near the latest measurement."""
        return self.latest.error / 1e9


def measure(read: Callable[[], Reading], count: int) -> Offset:
    """Take ``count`` readings and make an offset of them."""
    return Offset.from_readings([read() for _ in range(count)])
