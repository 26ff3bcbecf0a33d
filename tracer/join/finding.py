"""A verdict and the sentence that goes with it: what every question of the join answers with."""

from __future__ import annotations

from msgspec import Struct

from tracer.join.model import Verdict


class Finding(Struct, frozen=True):
    """What was found of a component."""

    verdict: Verdict
    reason: str
