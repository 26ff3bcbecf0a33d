"""Attaching in one process: which targets, which handlers, and the session once the engine is ready."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from pd_tracer_hooks.guard import Guard
from pd_tracer_hooks.settings import Settings
from pd_tracer_hooks.sglang import identity
from pd_tracer_hooks.sglang.agent_maker import AgentMaker, Described
from pd_tracer_hooks.sglang.attach import Attachment, Installer, attach, best_installer
from pd_tracer_hooks.sglang.backends import backend_name, backend_targets
from pd_tracer_hooks.sglang.binding import Call
from pd_tracer_hooks.sglang.hub import Hub
from pd_tracer_hooks.sglang.pools import Inventory, take_inventory
from pd_tracer_hooks.sglang.session import Session
from pd_tracer_hooks.sglang.sources import engine_tree
from pd_tracer_hooks.sglang.targets import Target, module_of, rows
from pd_tracer_hooks.wire import Setup, Side, Want

log = logging.getLogger("pd_tracer")


class Process:
    """The hooks of one process. Sessions come and go with the engine's transfer managers."""

    def __init__(self, version: str, installer: Installer, guard: Guard, make_agent: AgentMaker) -> None:
        self.version = version
        self.session: Session | None = None
        self.attachments: list[Attachment] = []
        self.guard = guard
        self._installer = installer
        self._make_agent = make_agent
        make_agent.on_wanted = self._wanted
        self._hub = Hub(self._handlers(), guard)
        self._attached: set[str] = set()

    def attach_modules(self) -> None:
        """Hook the targets that are no transfer backend's."""
        self._attach(
            (target, target.path)
            for target in rows(self.version)
            if target.of is None and (not target.if_loaded or module_of(target.path) in sys.modules)
        )

    def attach_backend(self, manager: Any, side: Side) -> None:
        """Hook the methods of the classes that the server's transfer backend uses."""
        self._attach(backend_targets(self.version, type(manager), side))

    def _attach(self, targets: Iterable[tuple[Target, str]]) -> None:
        fresh = [(target, path) for target, path in targets if path not in self._attached]
        done = attach(fresh, self._installer, self._hub)
        self._attached.update(item.path for item in done if item.attached)
        self.attachments.extend(done)
        for item in done:
            if not item.attached:
                log.warning("pd-tracer: %s not attached: %s", item.path, item.reason)

    def _handlers(self) -> dict[str, Callable[..., Any]]:
        return {
            "sizing": self._sizing,
            "prefill_ready": lambda call: self._ready(call, Side.prefill),
            "decode_ready": lambda call: self._ready(call, Side.decode),
            "sending": self._around(Side.prefill, "sending"),
            "sender_ready": self._on(Side.prefill, "sender_ready"),
            "send": self._on(Side.prefill, "send"),
            "sender_aborted": self._on(Side.prefill, "sender_aborted"),
            "retracted": self._on(Side.prefill, "retracted"),
            "allocating": self._on(Side.decode, "allocating"),
            "opened": self._on(Side.decode, "opened"),
            "received": self._on(Side.decode, "received"),
            "admitted": self._on(Side.decode, "admitted"),
            "receiver_aborted": self._on(Side.decode, "receiver_aborted"),
            "retracting": self._around(Side.decode, "retracting"),
            "checksums": self._around(Side.decode, "checksums"),
            "released": self._released,
            "status": self._status,
            "tokens_freed": self._tokens_freed,
            "pages_freed": self._pages_freed,
        }

    def _on(self, side: Side, name: str) -> Callable[[Call], None]:
        def handler(call: Call) -> None:
            session = self.session
            if session is not None and session.side is side:
                getattr(getattr(session, side.value), name)(call)

        return handler

    def _around(self, side: Side, name: str) -> Callable[[Call, Callable[[], Any]], Any]:
        def handler(call: Call, original: Callable[[], Any]) -> Any:
            session = self.session
            if session is None or session.side is not side:
                return original()
            return getattr(getattr(session, side.value), name)(call, original)

        return handler

    def _released(self, call: Call) -> None:
        if self.session is not None:
            (self.session.prefill if self.session.side is Side.prefill else self.session.decode).released(
                call
            )

    def _status(self, call: Call) -> None:
        if self.session is not None:
            self.session.status(call["bootstrap_room"], call["status"], call["self"])

    def _tokens_freed(self, call: Call) -> None:
        if self.session is not None:
            self.session.freed(call["free_index"], self.session.page_size)

    def _pages_freed(self, call: Call) -> None:
        if self.session is not None:
            self.session.freed(call["page_ids"], 1)

    def _wanted(self, wants: Sequence[Want]) -> None:
        if self.session is not None:
            self.session.wanted(wants)

    def _sizing(self, call: Call) -> None:
        runner = call["self"]
        mode = getattr(getattr(runner, "server_args", None), "disaggregation_mode", "null")
        if mode in {side.value for side in Side} and not getattr(runner, "is_draft_worker", False):
            self._make_agent.take_memory()

    def _ready(self, call: Call, side: Side) -> None:
        queue, manager = call["self"], call["result"]
        if self.session is not None:
            self.session.close()  # the engine changed its role, or made its manager anew
        self.attach_backend(manager, side)
        self.session = self.open_session(manager, queue, side)

    def open_session(self, manager: Any, queue: Any, side: Side) -> Session:
        """Describe the pools, start the agent, say what is there and what is attached."""
        kv_args = manager.kv_args
        scheduler = getattr(queue, "scheduler", None)
        pool = getattr(queue, "token_to_kv_pool", None)
        others = (getattr(scheduler, "req_to_token_pool", None), getattr(queue, "req_to_token_pool", None))
        draft = getattr(queue, "draft_token_to_kv_pool", None)
        inventory = take_inventory(kv_args, pool, draft, others, identity.heads_of(pool, scheduler))
        agent, described = self._make_agent(manager, scheduler, inventory, side)
        session = Session(
            side=side,
            agent=agent,
            inventory=inventory,
            backend=backend_name(manager),
            transfer_name=identity.transfer_name(manager),
            guard=self.guard,
        )
        agent.start()
        agent.manifest(
            [component.pool for component in inventory.components],
            moved={component.name for component in inventory.moved},
            setup=self._setup(inventory, described),
        )
        return session

    def _setup(self, inventory: Inventory, known: Described) -> Setup:
        last = {item.path: item for item in self.attachments}
        return Setup(
            attached=[path for path, item in last.items() if item.attached],
            missing={path: item.reason for path, item in last.items() if not item.attached},
            changed=known.changed,
            notes=inventory.notes,
            config=known.config,
        )


def attach_process(environ: Mapping[str, str] | None = None) -> Process | None:
    """Attach in this process, once. None while ``PD_TRACER_URL`` is unset.

    Raises ``SettingsError`` for settings that cannot be used and ``ImportError`` without an engine.
    """
    global _process  # noqa: PLW0603 - one per process, as the engine's functions are
    if _process is not None:
        return _process
    settings = Settings.from_env(environ)
    if settings is None:
        return None
    tree, version = engine_tree()
    guard = Guard(settings.max_faults, raising=settings.raise_faults)
    _process = Process(version, best_installer(), guard, AgentMaker(settings, guard, tree, version))
    _process.attach_modules()
    return _process


def current() -> Process | None:
    """The hooks of this process, if they are attached."""
    return _process


_process: Process | None = None
