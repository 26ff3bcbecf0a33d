"""Workers of one deployment that should be alike and are not: another source, release or configuration."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from pd_tracer_hooks.wire import Worker


@dataclass(frozen=True)
class _Field:
    """Something in which workers should agree. ``by_side``: prefill and decode differ in it by nature."""

    name: str
    words: str
    by_side: bool = False


_FIELDS = (
    _Field("engine_version", "engine version"),
    _Field("fingerprint", "source of the hooked functions"),
    _Field("hooks_version", "hooks version"),
    _Field("config_hash", "configuration", by_side=True),
)


def unlike(workers: Sequence[Worker]) -> dict[tuple[str, str], list[str]]:
    """By (deployment, worker id): in what a worker differs from most others of its deployment, in words.

    An empty value is not known, and differs from nothing. Where no value is had by more than half, all
    workers of the group are named, since nobody can say which of them is right.
    """
    found: dict[tuple[str, str], list[str]] = {}
    for field in _FIELDS:
        for group in _groups(workers, field):
            values = Counter(str(getattr(worker, field.name)) for worker in group)
            if len(values) < 2:
                continue
            common, count = values.most_common(1)[0]
            settled = 2 * count > len(group)
            for worker in group:
                value = str(getattr(worker, field.name))
                if not settled:
                    found.setdefault((worker.deployment, worker.id), []).append(
                        f"{field.words} {value}: the deployment has {len(values)}, none with most workers"
                    )
                elif value != common:
                    found.setdefault((worker.deployment, worker.id), []).append(
                        f"{field.words} {value}: {count} of {len(group)} workers have {common}"
                    )
    return found


def _groups(workers: Iterable[Worker], field: _Field) -> Iterable[list[Worker]]:
    groups: dict[tuple[str, str], list[Worker]] = {}
    for worker in workers:
        if getattr(worker, field.name):
            side = worker.side.value if field.by_side else ""
            groups.setdefault((worker.deployment, side), []).append(worker)
    return groups.values()
