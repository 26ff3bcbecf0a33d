"""The workers that report: their latest boot, when they were last heard, and what they lost."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec
from sqlalchemy import Connection, bindparam, select, tuple_, update

from pd_tracer_hooks.wire import Heartbeat, Worker
from tracer.store.batch import Batch
from tracer.store.codec import encode_json
from tracer.store.schema import workers
from tracer.store.upsert import insert_missing

#: ``last_seen`` alone is written at most this often.
_SEEN_EVERY_S = 1.0
#: Earlier boots of a worker that are remembered, so that a late report of one changes nothing.
_FORMER_BOOTS = 8
_MAX_WORKERS = 50_000

#: Deployment and worker id.
Name = tuple[str, str]


@dataclass(slots=True)
class _News:
    """What the batches of one flush say of one worker."""

    worker: Worker
    last_seen: float
    heartbeat: Heartbeat | None = None
    drops: dict[str, int] = field(default_factory=dict)


@dataclass(slots=True)
class _Known:
    """What was last written of a worker."""

    worker: Worker
    heartbeat: Heartbeat | None
    drops: dict[str, int]
    written_at: float
    former: deque[str] = field(default_factory=lambda: deque(maxlen=_FORMER_BOOTS))


class WorkerBook:
    """Keeps the ``workers`` table. Belongs to the writer's thread."""

    def __init__(self) -> None:
        self._known: dict[Name, _Known] = {}

    def write(
        self, connection: Connection, batches: Sequence[Batch], drops: Counter[tuple[str, str, str]]
    ) -> Callable[[], None]:
        """Write what changed, and add what was newly lost to ``drops``. Call the result after the commit."""
        changed = {name: news for name, news in self._gather(batches).items() if self._differs(name, news)}
        if not changed:
            return lambda: None
        insert_missing(connection, workers, [_first_row(news) for news in changed.values()])
        rows: list[dict[str, Any]] = []
        after: dict[Name, _Known] = {}
        for stored in connection.execute(_STORED, {"names": sorted(changed)}):
            name = (stored.deployment, stored.worker)
            news = changed[name]
            known = self._known.get(name)
            former = known.former if known is not None else deque[str](maxlen=_FORMER_BOOTS)
            if news.worker.boot in former:
                continue
            before: dict[str, int] = {}
            if stored.boot == news.worker.boot:
                before = msgspec.json.decode(stored.drops, type=dict[str, int])
            else:
                former = deque([*former, stored.boot], maxlen=_FORMER_BOOTS)
            total = {reason: max(count, before.get(reason, 0)) for reason, count in news.drops.items()}
            for reason, count in total.items():
                if count > before.get(reason, 0):
                    drops[*name, reason] += count - before.get(reason, 0)
            total = {**before, **total}
            heartbeat = news.heartbeat or (known.heartbeat if known is not None else None)
            shown = encode_json(heartbeat).decode() if heartbeat is not None else ""
            if not shown and stored.boot == news.worker.boot:
                shown = stored.heartbeat
            rows.append(_row(news, shown, total, max(news.last_seen, stored.last_seen)))
            after[name] = _Known(news.worker, heartbeat, total, news.last_seen, former)
        if rows:
            connection.execute(_UPDATE, rows)

        def committed() -> None:
            if len(self._known) > _MAX_WORKERS:
                self._known.clear()
            self._known.update(after)

        return committed

    @staticmethod
    def _gather(batches: Sequence[Batch]) -> dict[Name, _News]:
        gathered: dict[Name, _News] = {}
        for batch in batches:
            name = (batch.worker.deployment, batch.worker.id)
            news = gathered.get(name)
            if news is None or news.worker.boot != batch.worker.boot:
                news = gathered[name] = _News(batch.worker, batch.received)
            news.worker = batch.worker
            news.last_seen = max(news.last_seen, batch.received)
            news.heartbeat = batch.heartbeat or news.heartbeat
            for reason, count in batch.drops.items():
                news.drops[reason] = max(count, news.drops.get(reason, 0))
        return gathered

    def _differs(self, name: Name, news: _News) -> bool:
        known = self._known.get(name)
        return (
            known is None
            or known.worker != news.worker
            or (news.heartbeat is not None and news.heartbeat != known.heartbeat)
            or any(count > known.drops.get(reason, 0) for reason, count in news.drops.items())
            or news.last_seen >= known.written_at + _SEEN_EVERY_S
        )


_STORED = (
    select(
        workers.c.deployment,
        workers.c.worker,
        workers.c.boot,
        workers.c.last_seen,
        workers.c.heartbeat,
        workers.c.drops,
    )
    .where(tuple_(workers.c.deployment, workers.c.worker).in_(bindparam("names", expanding=True)))
    .order_by(workers.c.deployment, workers.c.worker)
    .with_for_update()
)
_UPDATE = (
    update(workers)
    .where(workers.c.deployment == bindparam("of_deployment"), workers.c.worker == bindparam("of_worker"))
    .values(
        {
            name: bindparam(f"new_{name}")
            for name in ("boot", "side", "server", "node", "run", "last_seen", "body", "heartbeat", "drops")
        }
    )
)


def _row(news: _News, heartbeat: str, drops: dict[str, int], last_seen: float) -> dict[str, Any]:
    worker = news.worker
    return {
        "of_deployment": worker.deployment,
        "of_worker": worker.id,
        "new_boot": worker.boot,
        "new_side": worker.side.value,
        "new_server": worker.server,
        "new_node": worker.node,
        "new_run": worker.run,
        "new_last_seen": last_seen,
        "new_body": encode_json(worker).decode(),
        "new_heartbeat": heartbeat,
        "new_drops": encode_json(drops).decode(),
    }


def _first_row(news: _News) -> dict[str, Any]:
    worker = news.worker
    return {
        "deployment": worker.deployment,
        "worker": worker.id,
        "boot": worker.boot,
        "side": worker.side.value,
        "server": worker.server,
        "node": worker.node,
        "run": worker.run,
        "first_seen": news.last_seen,
        "last_seen": news.last_seen,
        "body": encode_json(worker).decode(),
        "heartbeat": "",
        "drops": "{}",
    }
