"""How the verdict on a whole follows from those on its parts."""

from __future__ import annotations

from collections.abc import Iterable

from tracer.join.model import DECIDED_EARLY, PRECEDENCE, Cause, Verdict

#: Early findings first, then pending, then the others as PRECEDENCE has them.
_RANK = {
    verdict: rank
    for rank, verdict in enumerate(
        [
            *(verdict for verdict in PRECEDENCE if verdict in DECIDED_EARLY),
            Verdict.pending,
            *(verdict for verdict in PRECEDENCE if verdict not in DECIDED_EARLY),
        ]
    )
}

_CAUSES = {cause: rank for rank, cause in enumerate(Cause)}


def severity(verdict: Verdict) -> int:
    """Smaller is worse."""
    return _RANK[verdict]


def worst(verdicts: Iterable[Verdict]) -> Verdict:
    """The verdict on a whole of at least one part. Raises ``ValueError`` when there is none."""
    return min(verdicts, key=_RANK.__getitem__)


def foremost(causes: Iterable[Cause | None]) -> Cause | None:
    """The cause of a whole: the first in the order of causes that one of its parts has, or None."""
    return min((cause for cause in causes if cause is not None), key=_CAUSES.__getitem__, default=None)
