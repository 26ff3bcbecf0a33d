"""Manifests: what each worker's pool has and moves, kept for the join."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from sqlalchemy import Connection, select, tuple_

from pd_tracer_hooks.wire import Manifest
from tracer.join.model import Manifests
from tracer.store.batch import Batch, Outcome
from tracer.store.codec import decode_manifest, encode_record
from tracer.store.schema import manifests
from tracer.store.upsert import upsert

#: Asked for again after this many seconds: another collector may have got one.
_ASK_MISSING_S, _ASK_KNOWN_S = 1.0, 10.0
_MAX_BOOTS = 20_000


#: Deployment and server.
Server = tuple[str, str]


class Boot(NamedTuple):
    """One life of a worker's process."""

    deployment: str
    worker: str
    boot: str


class ManifestBook:
    """The manifests of the workers that report. Belongs to the writer's thread."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._by_deployment: dict[str, dict[tuple[str, str], Manifest]] = {}
        self._ask_at: dict[Boot, float] = {}

    def of(self, deployment: str) -> Manifests:
        """The manifests known of a deployment."""
        return self._by_deployment.setdefault(deployment, {})

    def load(self, connection: Connection, boots: Iterable[Boot]) -> None:
        """Read the manifests of those of ``boots`` that were not asked for just now."""
        now = self._clock()
        wanted = sorted(boot for boot in set(boots) if self._ask_at.get(boot, 0.0) <= now)
        if not wanted:
            return
        columns = manifests.c
        query = select(columns.deployment, columns.worker, columns.boot, columns.body).where(
            tuple_(columns.deployment, columns.worker, columns.boot).in_(wanted)
        )
        if len(self._ask_at) > _MAX_BOOTS:
            self._by_deployment.clear()
            self._ask_at.clear()
        self._ask_at.update(dict.fromkeys(wanted, now + _ASK_MISSING_S))
        for deployment, worker, boot, body in connection.execute(query):
            self._by_deployment.setdefault(deployment, {})[worker, boot] = decode_manifest(body)
            self._ask_at[Boot(deployment, worker, boot)] = now + _ASK_KNOWN_S

    def write(
        self,
        connection: Connection,
        batches: Sequence[tuple[Batch, Outcome]],
        counts: Counter[tuple[str, str]],
    ) -> dict[Boot, Server]:
        """Keep the newest manifest of each boot, and count each in the outcome of its batch.

        Returns the boots whose manifest is new, with their server. An older manifest than the one that
        is kept counts as a duplicate: it can add nothing.
        """
        arrived = [
            (Boot(batch.worker.deployment, batch.worker.id, batch.worker.boot), batch, manifest, outcome)
            for batch, outcome in batches
            for manifest in batch.manifests
        ]
        if not arrived:
            return {}
        for boot, *_ in arrived:
            self._ask_at.pop(boot, None)
        self.load(connection, (boot for boot, *_ in arrived))
        rows: dict[Boot, dict[str, object]] = {}
        servers: dict[Boot, Server] = {}
        for boot, batch, manifest, outcome in arrived:
            of_deployment = self._by_deployment.setdefault(boot.deployment, {})
            kept = of_deployment.get((boot.worker, boot.boot))
            if kept is not None and manifest.seq <= kept.seq:
                if manifest.seq == kept.seq and manifest != kept:
                    outcome.conflicting += 1
                    counts["manifest", "conflicting"] += 1
                else:
                    outcome.duplicate += 1
                    counts["manifest", "duplicate"] += 1
                continue
            of_deployment[boot.worker, boot.boot] = manifest
            self._ask_at[boot] = self._clock() + _ASK_KNOWN_S
            outcome.accepted += 1
            counts["manifest", "accepted"] += 1
            servers[boot] = (boot.deployment, batch.worker.server)
            rows[boot] = {
                **boot._asdict(),
                "seq": manifest.seq,
                "received": batch.received,
                "body": encode_record(manifest),
            }
        upsert(connection, manifests, list(rows.values()), ["seq", "received", "body"])
        return servers

    def forget(self) -> None:
        """Forget everything: what was read or written last was never committed."""
        self._by_deployment.clear()
        self._ask_at.clear()
