"""How much workers are asked for after a mismatch, and for how long."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class AskPolicy:
    """What is asked for. ``detail_s`` and ``deep_s``: how long, in seconds; 0: never."""

    detail_s: float = 120.0
    #: Rooms whose details are asked for at once.
    detail_rooms: int = 200
    deep_s: float = 300.0
    #: Pairs that look closer at once.
    deep_pairs: int = 4
