"""A worker's tracer: what an engine's hooks talk to.

    agent = Agent(settings, describe_worker(settings, side=Side.prefill))
    agent.start()
    agent.manifest(pools, moved={"kv", "index_k"})
    agent.observe(Look(...))
    agent.close()

None of these raises into the host, blocks on the network, or holds pages back.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

import msgspec

from pd_tracer_hooks.capture import Look, Plan, launch
from pd_tracer_hooks.client import Transport
from pd_tracer_hooks.digest.backend import DigestBackend, Pool, ScratchFull
from pd_tracer_hooks.digest.choose import choose_backend
from pd_tracer_hooks.drops import Drop, Drops
from pd_tracer_hooks.guard import Guard
from pd_tracer_hooks.identity import MAX_ALIASES, new_boot
from pd_tracer_hooks.journal import Journal
from pd_tracer_hooks.keys import sampled
from pd_tracer_hooks.lifetime import care_for
from pd_tracer_hooks.manifest import Holdings
from pd_tracer_hooks.outbox import Outbox
from pd_tracer_hooks.reader import Reader
from pd_tracer_hooks.records import Records
from pd_tracer_hooks.sender import Reporter, Sender
from pd_tracer_hooks.settings import Settings
from pd_tracer_hooks.spool import transport_for
from pd_tracer_hooks.texts import REASON_BYTES, fit, fit_room
from pd_tracer_hooks.wanted import Wanted
from pd_tracer_hooks.wire import (
    Event,
    EventKind,
    Heartbeat,
    HooksState,
    Setup,
    Stage,
    Want,
    Worker,
)

#: Share of a close's time for digests under way; the rest is for sending.
_READING = 0.5


#: A room is asked for several times within its short life; its hash takes some microseconds.
_sampled = lru_cache(maxsize=4096)(sampled)


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
    component, where known. ``transport``: how reports are delivered (None: to ``settings.url``).
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
            order_free=settings.order_free,
            model_layers=model_layers,
            owning_layers=owning_layers or {},
        )
        #: Signatures do not hold the coverage, so these digests compare with those of the usual plan. On the
        #: CPU path every page more would cost the engine's thread, so there only the stages grow.
        on_device = self._backend.name != "cpu"
        self._deep_plan = replace(self._plan, full=self._plan.full or on_device, layer_sums=True)
        self._make_transport = transport or (lambda: transport_for(settings, self._worker, self._drops))
        self._on_wanted = on_wanted
        self._guard = guard or Guard(settings.max_faults, raising=settings.raise_faults)
        self._holdings: Holdings | None = None
        self._fresh()
        care_for(self)

    def _fresh(self) -> None:
        """Everything that belongs to one process: locks, threads, counts."""
        settings = self._settings
        self._started = time.monotonic()
        self._start_lock, self._close_lock = threading.Lock(), threading.Lock()
        self._running = False
        self._closed = False
        self._delivered = True
        self._drops = Drops()
        #: Faults met on our own threads are raised by close() under pytest, since nobody else sees them.
        self._thread_fault: Exception | None = None
        self._outbox = Outbox(settings.queue, settings.queue_bytes, wake_at=settings.batch)
        self._records = Records(self._outbox, self._drops)
        journal = Journal(0 if settings.spools else settings.journal_bytes)
        self._answers = Wanted(
            journal,
            self._worker.side,
            deliver=self._records.detail,
            next_seq=self._records.next_seq,
            deep_limit_s=settings.deep_s,
        )
        self._reader = Reader(
            self._plan,
            limit=settings.pending,
            patience_s=settings.pending_s,
            deliver=self._records.observation,
            lose=self._lose,
            fault=self._met,
            journal=journal,
        )
        self._sender: Sender | None = None

    def start(self) -> None:
        """Start the threads. Called by itself with the first record, and again after a fork."""
        with self._guard, self._start_lock:
            if self._running or self._closed:
                return
            sender = Sender(
                self._settings,
                self._outbox,
                self._drops,
                self._make_transport(),
                Reporter(
                    worker=lambda: self._worker,
                    heartbeat=self._heartbeat,
                    wanted=self._wanted,
                    lost=self._records.lost,
                    fault=self._met,
                ),
            )
            self._reader.start()
            sender.start()
            # Only now: what fails before is tried again with the next record.
            self._sender, self._running = sender, True
            self._send_manifest()

    def manifest(
        self, pools: Iterable[Pool], *, moved: Collection[str] | None = None, setup: Setup | None = None
    ) -> None:
        """Say what this worker holds, and which of it the transfer moves (None: all). Once, at attach.

        Makes the backend ready for the pools too, which may take seconds on a GPU.
        """
        with self._guard:
            kept = tuple(pools)
            self._holdings = Holdings(kept, None if moved is None else frozenset(moved), setup)
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
            room = fit_room(room)
            if not _sampled(room, self._settings.sampling):
                if kind is not EventKind.opened:
                    return
                kind = EventKind.sampled_out
            self._ensure_running()
            self._records.event(
                Event(
                    kind=kind,
                    room=room,
                    keys=list(dict.fromkeys(keys)),
                    seq=self._records.next_seq(),
                    at=time.time(),
                    request=fit(request),
                    trace=fit(trace),
                    peer=fit(peer),
                    reason=fit(reason, REASON_BYTES),
                    component=component,
                )
            )

    def observe(self, look: Look) -> None:
        """Digest what ``look`` names and report it. Returns as soon as the digest is launched."""
        if self._guard.detached or self._closed:
            return
        with self._guard:
            room = fit_room(look.room)
            if not _sampled(room, self._settings.sampling):
                return
            if room != look.room:
                look = replace(look, room=room)
            if self._records.given_up(room, look.keys):
                return
            if len(self._reader) >= self._settings.pending:
                self._lose(look, Drop.pending_full)
                return
            self._ensure_running()
            self._launch(look)

    def _launch(self, look: Look) -> None:
        seq = self._records.next_seq()
        plan = self._deep_plan if self._answers.deep else self._plan
        try:
            launched = launch(self._backend, plan, look)
        except ScratchFull:
            self._lose(look, Drop.scratch_full)
            return
        except Exception:
            self._lose(look, Drop.fault)
            raise
        if launched and not self._reader.submit(look, seq, launched, plan):
            self._lose(look, Drop.pending_full)

    def total(self, room: str, key: str, stage: Stage, component: str, pages: int) -> None:
        """Say P of a transfer whose looks, all made before, did not know it.

        ``key``: one of those looks', or empty if they had none.
        """
        if self._guard.detached or self._closed:
            return
        with self._guard:
            self._reader.total((fit_room(room), key, stage, component), pages)

    def learn_alias(self, name: str) -> None:
        """Another name by which peers call this worker's server; it goes out with the next report."""
        with self._guard:
            name = fit(name)
            if name and name not in self._worker.aliases:
                aliases = [*self._worker.aliases, name][-MAX_ALIASES:]
                self._worker = msgspec.structs.replace(self._worker, aliases=aliases)

    def close(self, timeout_s: float | None = None) -> bool:
        """Deliver what there is within ``timeout_s`` (default: the settings' ``shutdown_s``).

        Says whether everything went out. Afterwards the agent does nothing. Raises nothing, except that
        under pytest a fault of a background thread comes out here.
        """
        timeout = self._settings.shutdown_s if timeout_s is None else timeout_s
        now = time.monotonic()
        with self._close_lock:
            if not self._closed:
                with self._guard:
                    self._delivered = self._close(now + timeout * _READING, now + timeout)
        fault, self._thread_fault = self._thread_fault, None
        if fault is not None:
            raise fault
        return self._delivered

    def _close(self, read_until: float, send_until: float) -> bool:
        if self._running:
            self._reader.close(read_until)
        with self._start_lock:
            self._closed = True
        if self._sender is not None:
            return self._sender.close(send_until)
        lost = self._outbox.discard()
        if lost:
            self._drops.add(Drop.shutdown, lost)
        return lost == 0

    @property
    def deep(self) -> bool:
        """Whether the collector wants all stages now: an integration then looks where it else does not."""
        return self._answers.deep

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
        try:
            self._answers.take(wanted)
        except Exception as error:
            self._met(error)
        if self._on_wanted is not None:
            try:
                self._on_wanted(wanted)
            except Exception as error:
                self._met(error)

    def _ensure_running(self) -> None:
        if not self._running:
            self.start()

    def _lose(self, look: Look, reason: Drop) -> None:
        self._records.give_up(look.room, look.keys, reason)

    def _met(self, error: Exception) -> None:
        if self._settings.raise_faults:  # else it would keep its frames, and all that they hold
            self._thread_fault = self._thread_fault or error
        self._guard.met(error)

    def _send_manifest(self) -> None:
        if self._holdings is not None:
            seq = self._records.next_seq()
            self._records.manifest(self._holdings.manifest(self._plan, seq=seq, at=time.time()))

    def after_fork(self) -> None:
        """In the child of a fork: nothing of the parent's threads, locks or connection is touched again.

        Nothing is sent either, until the child traces something: most children never do. Called by itself.
        """
        closed = self._closed
        # Digests under way are not let go of: giving them back could call on a device from the wrong process.
        self._left_behind = self._reader
        self._worker = msgspec.structs.replace(self._worker, boot=new_boot())
        self._guard.renew()
        self._fresh()
        self._closed = closed
