"""Servers and their aliases: what a peer was called, and who that is."""

from __future__ import annotations

import time
from collections.abc import Callable, Container, Iterable, Mapping
from functools import partial

import msgspec
from sqlalchemy import Connection, select, tuple_

from tracer.join.model import RoomVerdict
from tracer.store.batch import Batch
from tracer.store.schema import aliases
from tracer.store.upsert import upsert

#: A name is asked for again after this many seconds: another collector may have learnt it, or learnt
#: that an address has gone to another server.
_ASK_UNKNOWN_S, _ASK_KNOWN_S = 1.0, 60.0
#: Names remembered at most; beyond that all are asked for anew.
_MAX_NAMES = 50_000

#: Deployment and name.
Name = tuple[str, str]


def peers_of(verdict: RoomVerdict, spoke: Container[str]) -> list[str]:
    """Servers of the verdict's attempts that did not speak themselves, but were named."""
    peers = []
    for attempt in verdict.attempts:
        if attempt.prefill_server and attempt.prefill_server not in spoke:
            peers.append(attempt.prefill_server)
        if attempt.decode_server and attempt.decode_server not in spoke:
            peers.append(attempt.decode_server)
    return peers


def renamed(verdict: RoomVerdict, spoke: Container[str], resolve: Callable[[str], str]) -> RoomVerdict:
    """``verdict`` with the servers of its attempts as ``resolve`` calls them, but for those that spoke."""
    if not peers_of(verdict, spoke):  # nearly always
        return verdict

    def name(given: str) -> str:
        return given if not given or given in spoke else resolve(given)

    if all(
        name(attempt.prefill_server) == attempt.prefill_server
        and name(attempt.decode_server) == attempt.decode_server
        for attempt in verdict.attempts
    ):
        return verdict
    attempts = [
        msgspec.structs.replace(
            attempt,
            prefill_server=name(attempt.prefill_server),
            decode_server=name(attempt.decode_server),
        )
        for attempt in verdict.attempts
    ]
    return msgspec.structs.replace(verdict, attempts=attempts)


class Names:
    """Resolves the name that one side gives its peer. Belongs to the writer's thread."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._servers: dict[Name, str] = {}
        self._ask_at: dict[Name, float] = {}

    def learn(self, connection: Connection, batches: Iterable[Batch]) -> None:
        """Write the aliases that ``batches`` bring and that are new."""
        new: dict[Name, str] = {}
        for batch in batches:
            worker = batch.worker
            # A server is known by its own name too, whatever other servers call themselves.
            for alias in (*worker.aliases, worker.server):
                name = (worker.deployment, alias)
                known = new.get(name, self._servers.get(name))
                if known == worker.server or (known == alias and alias != worker.server):
                    continue
                new[name] = worker.server
        rows = [
            {"deployment": deployment, "alias": alias, "server": server}
            for (deployment, alias), server in new.items()
        ]
        upsert(connection, aliases, rows, ["server"])
        self._remember(new, _ASK_KNOWN_S)

    def forget(self) -> None:
        """Forget everything: what was learnt last was never committed."""
        self._servers.clear()
        self._ask_at.clear()

    def look_up(self, connection: Connection, names: Iterable[Name]) -> None:
        """Ask the database for those of ``names`` that are not known and were not asked for just now."""
        now = self._clock()
        wanted = sorted(name for name in set(names) if name[1] and self._ask_at.get(name, 0.0) <= now)
        if not wanted:
            return
        query = select(aliases.c.deployment, aliases.c.alias, aliases.c.server).where(
            tuple_(aliases.c.deployment, aliases.c.alias).in_(wanted)
        )
        found = {(deployment, alias): server for deployment, alias, server in connection.execute(query)}
        self._remember(found, _ASK_KNOWN_S)
        for name in wanted:
            if name not in found:
                self._ask_at[name] = now + _ASK_UNKNOWN_S

    def _remember(self, servers: Mapping[Name, str], seconds: float) -> None:
        if len(self._ask_at) > _MAX_NAMES:
            self._servers.clear()
            self._ask_at.clear()
        ask_at = self._clock() + seconds
        for name, server in servers.items():
            self._servers[name] = server
            self._ask_at[name] = ask_at

    def known(self, deployment: str, name: str) -> bool:
        """Whether a server of that name, or alias, has ever reported."""
        return (deployment, name) in self._servers

    def resolve(self, deployment: str, name: str) -> str:
        """The server that is called ``name``, or ``name`` itself where nobody is known by it."""
        return self._servers.get((deployment, name), name)

    def resolve_all(self, deployment: str, verdict: RoomVerdict, spoke: Container[str]) -> RoomVerdict:
        """``verdict`` with the servers of its attempts resolved, but for those that spoke themselves."""
        return renamed(verdict, spoke, partial(self.resolve, deployment))
