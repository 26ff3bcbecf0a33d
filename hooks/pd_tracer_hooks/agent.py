"""A worker's tracer: what an engine's hooks talk to.

    agent = Agent(settings, describe_worker(settings, side=Side.prefill))
    agent.start()
    agent.manifest(pools, moved={"kv", "index_k"})
    agent.observe(Look(...))
    agent.close()

None of these raises into the host, blocks on the network, or holds pages back.
"""

from __future__ import annotations

import atexit
import itertools
import logging
import os
import threading
import time
import weakref
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

import msgspec

from pd_tracer_hooks.capture import Look, Plan, launch
from pd_tracer_hooks.client import HttpTransport, Transport
from pd_tracer_hooks.digest.backend import DigestBackend, Pool
from pd_tracer_hooks.digest.choose import choose_backend
from pd_tracer_hooks.drops import Drop, Drops
from pd_tracer_hooks.guard import Guard
from pd_tracer_hooks.identity import new_boot
from pd_tracer_hooks.keys import sampled
from pd_tracer_hooks.layout import signature
from pd_tracer_hooks.outbox import Outbox, Queued
from pd_tracer_hooks.reader import Reader
from pd_tracer_hooks.sender import Reporter, Sender
from pd_tracer_hooks.settings import Settings
from pd_tracer_hooks.wire import (
    Event,
    EventKind,
    Heartbeat,
    HooksState,
    Manifest,
    ManifestComponent,
    Observation,
    RecordKind,
    Setup,
    Stage,
    Want,
    Worker,
    encode,
)

_log = logging.getLogger("pd_tracer")


@dataclass(frozen=True)
class Stats:
    """What an agent has done so far."""

    queued: int
    sent: int
    drops: Mapping[str, int]
    faults: int
    state: HooksState


class Agent:
    """One worker's tracer. Thread-safe; survives a fork with a boot of its own in the child.

    ``backend``: how digests are computed (None: GPU where that works, else CPU). ``model_layers``: layers of
    the whole model, for layer policies other than ``all``; ``owning_layers``: those that own a buffer, by
    component, where known. ``transport``: how reports are delivered (None: HTTP to ``settings.url``).
    ``guard``: an integration's own, so that its faults and the agent's count as one.
    """

    def __init__(
        self,
        settings: Settings,
        worker: Worker,
        *,
        backend: DigestBackend | None = None,
        model_layers: int = 0,
        owning_layers: Mapping[str, Sequence[int]] | None = None,
        transport: Callable[[], Transport] | None = None,
        on_wanted: Callable[[Sequence[Want]], None] | None = None,
        guard: Guard | None = None,
    ) -> None:
        self._settings, self._worker = settings, worker
        self._backend = backend if backend is not None else choose_backend()
        full = settings.coverage == "full" or (settings.coverage == "auto" and self._backend.name != "cpu")
        self._plan = Plan(
            full=full,
            k=settings.k,
            layer_choice=settings.layers,
            layer_sums=settings.layer_sums,
            model_layers=model_layers,
            owning_layers=owning_layers or {},
        )
        self._make_transport = transport or (lambda: HttpTransport(settings.url))
        self._on_wanted = on_wanted
        self._shared_guard = guard
        self._manifest: tuple[tuple[Pool, ...], frozenset[str] | None, Setup | None] | None = None
        self._fresh()
        _agents.add(self)

    def _fresh(self) -> None:
        """Everything that belongs to one process: locks, threads, counts."""
        settings = self._settings
        self._pid = os.getpid()
        self._started = time.monotonic()
        self._seq = itertools.count(1)
        self._start_lock = threading.Lock()
        self._running = False
        self._closed = False
        self._drops = Drops()
        self._guard = self._shared_guard or Guard(settings.max_faults, raising=settings.raise_faults)
        #: Faults met on our own threads are raised by close() under pytest, since nobody else sees them.
        self._thread_fault: Exception | None = None
        self._outbox = Outbox(settings.queue, settings.queue_bytes, wake_at=settings.batch)
        self._reader = Reader(
            self._plan,
            limit=settings.pending,
            patience_s=settings.pending_s,
            deliver=self._deliver,
            lose=self._lose,
            fault=self._met,
        )
        self._sender: Sender | None = None

    def start(self) -> None:
        """Start the threads. Called by itself with the first record, and again after a fork."""
        with self._guard, self._start_lock:
            if self._running or self._closed:
                return
            self._running = True
            self._sender = Sender(
                self._settings,
                self._outbox,
                self._drops,
                self._make_transport(),
                Reporter(lambda: self._worker, self._heartbeat, self._wanted),
            )
            self._reader.start()
            self._sender.start()
            self._send_manifest()

    def manifest(
        self, pools: Iterable[Pool], *, moved: Collection[str] | None = None, setup: Setup | None = None
    ) -> None:
        """Say what this worker holds, and which of it the transfer moves (None: all). Once, at attach.

        Makes the backend ready for the pools too, which may take seconds on a GPU.
        """
        with self._guard:
            kept = tuple(pools)
            self._manifest = kept, None if moved is None else frozenset(moved), setup
            if self._running:
                self._send_manifest()
            else:
                self.start()
            for pool in kept:
                self._backend.prepare(pool)

    def event(
        self,
        kind: EventKind,
        room: str,
        *,
        keys: Sequence[str] = (),
        request: str = "",
        trace: str = "",
        peer: str = "",
        reason: str = "",
        component: str = "",
    ) -> None:
        """Report that something happened to a room.

        Of a room that is left out of the sample only ``opened`` is reported, as ``sampled_out``: the
        collector then knows of it, at a tenth of a record's bytes.
        """
        if self._guard.detached or self._closed:
            return
        with self._guard:
            if not sampled(room, self._settings.sampling):
                if kind is not EventKind.opened:
                    return
                kind = EventKind.sampled_out
            if kind is EventKind.opened:
                self._outbox.unmark(room)
            elif self._outbox.marked(room):
                self._drops.add(Drop.queue_full)
                return
            record = Event(
                kind=kind,
                room=room,
                keys=list(keys),
                seq=next(self._seq),
                at=time.time(),
                request=request,
                trace=trace,
                peer=peer,
                reason=reason,
                component=component,
            )
            self._put(RecordKind.events, record, room, keys)

    def observe(self, look: Look) -> None:
        """Digest what ``look`` names and report it. Returns as soon as the digest is launched."""
        if self._guard.detached or self._closed:
            return
        with self._guard:
            if not sampled(look.room, self._settings.sampling):
                return
            if self._outbox.marked(look.room):
                self._drops.add(Drop.queue_full)
                return
            if len(self._reader) >= self._settings.pending:
                self._lose(look, Drop.pending_full)
                return
            self._ensure_running()
            seq = next(self._seq)
            launched = launch(self._backend, self._plan, look)
            if launched and not self._reader.submit(look, seq, launched):
                self._lose(look, Drop.pending_full)

    def total(self, room: str, key: str, stage: Stage, component: str, pages: int) -> None:
        """Say P of a transfer whose looks did not know it (``key`` may be empty, as in those looks)."""
        if self._guard.detached or self._closed:
            return
        with self._guard:
            self._reader.total((room, key, stage, component), pages)

    def learn_alias(self, name: str) -> None:
        """Another name by which peers call this worker's server; it goes out with the next report."""
        with self._guard:
            if name and name not in self._worker.aliases:
                aliases = [*self._worker.aliases, name][-64:]
                self._worker = msgspec.structs.replace(self._worker, aliases=aliases)

    def close(self, timeout_s: float | None = None) -> bool:
        """Deliver what there is within ``timeout_s`` (default: the settings' ``shutdown_s``).

        Says whether everything went out. Afterwards the agent does nothing. Raises nothing, except that
        under pytest a fault of a background thread comes out here.
        """
        if self._closed or self._pid != os.getpid():
            return True
        timeout = self._settings.shutdown_s if timeout_s is None else timeout_s
        deadline = time.monotonic() + timeout
        delivered = True
        with self._guard:
            if self._running:
                self._reader.close(deadline)
            self._closed = True
            if self._sender is not None:
                delivered = self._sender.close(deadline)
        if self._settings.raise_faults and self._thread_fault is not None:
            raise self._thread_fault
        return delivered

    @property
    def stats(self) -> Stats:
        """What was done so far."""
        return Stats(
            queued=len(self._outbox),
            sent=self._sender.sent if self._sender is not None else 0,
            drops=self._drops.counts(),
            faults=self._guard.faults,
            state=self._state(),
        )

    def _state(self) -> HooksState:
        return HooksState.detached if self._guard.detached else HooksState.active

    def _heartbeat(self) -> Heartbeat:
        return Heartbeat(
            state=self._state(),
            uptime_s=time.monotonic() - self._started,
            queued=len(self._outbox),
            faults=self._guard.faults,
        )

    def _wanted(self, wanted: Sequence[Want]) -> None:
        if self._on_wanted is not None:
            try:
                self._on_wanted(wanted)
            except Exception as error:
                self._met(error)

    def _ensure_running(self) -> None:
        if not self._running:
            self.start()

    def _deliver(self, observation: Observation) -> None:
        self._put(RecordKind.observations, observation, observation.room, observation.keys)

    def _put(self, kind: RecordKind, record: Observation | Event, room: str, keys: Sequence[str]) -> None:
        self._ensure_running()
        if not self._outbox.put(Queued(kind, encode(record))):
            self._give_up(room, keys, Drop.queue_full)

    def _lose(self, look: Look, reason: Drop) -> None:
        self._give_up(look.room, look.keys, reason)

    def _give_up(self, room: str, keys: Sequence[str], reason: Drop) -> None:
        """A record of ``room`` is lost, so the room is: say so once, and send no more of it."""
        self._drops.add(reason)
        if not self._outbox.mark(room):
            return
        event = Event(
            kind=EventKind.dropped,
            room=room,
            keys=list(keys),
            seq=next(self._seq),
            at=time.time(),
            reason=reason.value,
        )
        self._ensure_running()
        if not self._outbox.put_reserved(Queued(RecordKind.events, encode(event))):
            self._drops.add(Drop.queue_full)

    def _met(self, error: Exception) -> None:
        self._thread_fault = self._thread_fault or error
        self._guard.met(error)

    def _send_manifest(self) -> None:
        if self._manifest is None:
            return
        pools, moved, setup = self._manifest
        components = []
        for pool in pools:
            fields = self._plan.signature_fields(pool)
            components.append(
                ManifestComponent(
                    name=pool.component,
                    signature=signature(fields),
                    fields=fields,
                    layers=sorted(pool.buffers),
                    moved=moved is None or pool.component in moved,
                )
            )
        record = Manifest(seq=next(self._seq), at=time.time(), components=components, setup=setup)
        if not self._outbox.put_reserved(Queued(RecordKind.manifests, encode(record))):
            self._drops.add(Drop.queue_full)

    def _after_fork(self) -> None:
        """In the child: nothing of the parent's threads, locks or connection is touched again.

        Nothing is sent either, until the child traces something: most children never do.
        """
        closed = self._closed
        self._worker = msgspec.structs.replace(self._worker, boot=new_boot())
        self._fresh()
        self._closed = closed


#: Agents to care for at exit and after a fork.
_agents: weakref.WeakSet[Agent] = weakref.WeakSet()


@atexit.register
def _close_all() -> None:
    for agent in list(_agents):
        agent.close()


def _fork_all() -> None:
    for agent in list(_agents):
        agent._after_fork()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_fork_all)
