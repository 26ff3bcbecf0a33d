"""What the writer remembers of rooms, so that most flushes read nothing.

A state is only good while nobody else has written the room: its version must be one less than the
version that locking the room returns. Otherwise it is loaded again. States leave the cache when a
transaction begins and return after its commit, so that a failed one leaves nothing wrong behind.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, field
from functools import lru_cache

from tracer.join.model import AnyEntry, RoomVerdict
from tracer.store.codec import NaturalKey, RoomRef

#: Bytes of record bodies whose rooms are kept. In memory a decoded record takes a few times its body.
DEFAULT_BYTES = 48 << 20
#: What a room weighs beside its records.
_ROOM_BYTES = 512


@dataclass(slots=True)
class RoomState:
    """One room: its records, and what was last written of it."""

    ref: RoomRef
    day: int
    version: int
    entries: dict[NaturalKey, AnyEntry] = field(default_factory=dict)
    #: Transfer keys that have their row in ``room_keys``.
    keys: set[str] = field(default_factory=set)
    #: (worker id, boot id) of everybody who spoke. Rooms with the same speakers share one set.
    workers: frozenset[tuple[str, str]] = frozenset()
    #: Servers that spoke, as they call themselves.
    servers: frozenset[str] = frozenset()
    verdict: RoomVerdict | None = None
    first_seen: float = 0.0
    last_seen: float = 0.0
    #: When the latest attempt was first settled, or None.
    settled_at: float | None = None
    revisions: int = 0
    run: str = ""
    weight: int = _ROOM_BYTES

    def add(self, key: NaturalKey, entry: AnyEntry, size: int) -> None:
        """Take in a record that is new."""
        self.entries[key] = entry
        worker = entry.worker
        self.workers = _workers_and(self.workers, worker.id, worker.boot)
        self.servers = _servers_and(self.servers, worker.server)
        self.weight += size
        if not self.first_seen:
            self.first_seen = entry.received
        self.last_seen = max(self.last_seen, entry.received)


@lru_cache(maxsize=4096)
def _workers_and(workers: frozenset[tuple[str, str]], worker: str, boot: str) -> frozenset[tuple[str, str]]:
    return workers | {(worker, boot)}


@lru_cache(maxsize=4096)
def _servers_and(servers: frozenset[str], server: str) -> frozenset[str]:
    return servers | {server}


class StateCache:
    """The most recently written rooms, up to a total weight in bytes."""

    def __init__(self, limit: int = DEFAULT_BYTES) -> None:
        self._limit = limit
        self._weight = 0
        self._states: OrderedDict[RoomRef, RoomState] = OrderedDict()

    def __len__(self) -> int:
        return len(self._states)

    def known_keys(self, ref: RoomRef) -> set[str] | None:
        """Transfer keys of a remembered room that were written, or None if it is not remembered."""
        state = self._states.get(ref)
        return state.keys if state is not None else None

    def take(self, ref: RoomRef, version: int) -> RoomState | None:
        """Remove and return the state of ``ref``, if it is what preceded ``version``."""
        state = self._states.pop(ref, None)
        if state is None:
            return None
        self._weight -= state.weight
        if state.version + 1 != version:
            return None
        state.version = version
        return state

    def put(self, state: RoomState) -> None:
        """Remember ``state``; forget the rooms that were longest not written while over the limit."""
        self._states[state.ref] = state
        self._weight += state.weight
        while self._weight > self._limit and self._states:
            _, old = self._states.popitem(last=False)
            self._weight -= old.weight

    def forget(self, ref: RoomRef) -> None:
        """Forget a room."""
        state = self._states.pop(ref, None)
        if state is not None:
            self._weight -= state.weight
