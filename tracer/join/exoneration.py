"""When the transfer cannot be the cause of a bad answer, and what that statement does not cover.

That everything arrived is worth as much as that something did not: it sends the search elsewhere. So it is
said only where both manifests name what there is, and every page of every layer of it was compared.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from pd_tracer_hooks.wire import Coverage
from tracer.join.model import ComponentVerdict, Verdict
from tracer.join.wording import join_words

#: The metadata row that goes with a request, when a worker's hooks trace it.
METADATA = "aux"


def not_covered(components: Sequence[ComponentVerdict], *, manifests: bool, start: int) -> list[str] | None:
    """What the exoneration of a transfer leaves open; None if it is not exonerated.

    ``manifests``: whether those of all workers of both sides are known. ``start``: page of the sequence at
    which the transfer starts.
    """
    if not manifests or not components:
        return None
    for part in components:
        # A note says that another look found something else.
        if part.verdict is not Verdict.match or part.coverage is not Coverage.full or part.notes:
            return None
        if part.prefill.pages and len(part.layers) < part.layers_of:
            return None
    looks = {look for part in components for look in part.also_equal}
    everywhere = frozenset(look for look in looks if all(look in part.also_equal for part in components))
    return gaps_of(tuple(part.component for part in components), everywhere, start)


@lru_cache(maxsize=1024)
def gaps_of(names: tuple[str, ...], looks: frozenset[str], start: int) -> list[str]:
    """What is not covered when components ``names`` are equal throughout, also at further ``looks``."""
    gaps = []
    if start:
        gaps.append(f"pages before page {start} of the sequence, which decode held already")
    if METADATA not in names:
        gaps.append("the metadata row that goes with the request")
    if "send 1" not in looks:
        gaps.append(
            "whether prefill's pages were complete when they were handed over (no second look at send)"
        )
    if "admit" not in looks:
        gaps.append("decode's pages between receive and its first own write (no admit observation)")
    return gaps


def statement(components: Sequence[ComponentVerdict], gaps: Sequence[str]) -> str:
    """The exoneration as a sentence."""
    names = join_words([part.component for part in components])
    said = f"the transfer is not the cause: {names} arrived as sent, every page of every layer"
    return f"{said}. Not covered: {'; '.join(gaps)}" if gaps else said
