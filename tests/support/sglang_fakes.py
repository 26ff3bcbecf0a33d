"""Stand-ins for the engine's objects, of plain Python: pools, transfer arguments, managers, requests."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

from pd_tracer_hooks.capture import Look
from pd_tracer_hooks.guard import Guard
from pd_tracer_hooks.sglang.pools import take_inventory
from pd_tracer_hooks.sglang.session import Session
from pd_tracer_hooks.wire import EventKind, Side

_addresses = itertools.count(1 << 20, 1 << 20)


class Tensor:
    """As much of a tensor as is read of one: shape, element size, address."""

    def __init__(self, *shape: int, itemsize: int = 1, dtype: str = "torch.uint8") -> None:
        self.shape = shape
        self.ndim = len(shape)
        self.dtype = dtype
        self.device = "cpu"
        self._itemsize = itemsize
        self._address = next(_addresses) if shape[0] else 0
        self.nbytes = itemsize
        for size in shape:
            self.nbytes *= size

    def element_size(self) -> int:
        return self._itemsize

    def data_ptr(self) -> int:
        return self._address

    def is_contiguous(self) -> bool:
        return True


def pool(name: str, **attributes: Any) -> Any:
    """An object of a class of that name."""
    made = type(name, (), {})()
    made.__dict__.update(attributes)
    return made


def mha(layers: int = 2, page: int = 16) -> Any:
    rows = {"itemsize": 2, "dtype": "torch.bfloat16"}
    return pool(
        "MHATokenToKVPool",
        page_size=page,
        start_layer=0,
        k_buffer=[Tensor(128, 2, 8, **rows) for _ in range(layers)],  # type: ignore[arg-type]
        v_buffer=[Tensor(128, 2, 8, **rows) for _ in range(layers)],  # type: ignore[arg-type]
    )


def dsa(
    layers: int = 3, page: int = 64, owning: tuple[int, ...] = (0, 2), start: int = 0, name: str = "DSA"
) -> Any:
    return pool(
        f"{name}TokenToKVPool",
        page_size=page,
        start_layer=start,
        index_kpool=1,
        kv_buffer=[Tensor(640, 1, 576, itemsize=2, dtype="torch.bfloat16") for _ in range(layers)],
        index_k_with_scale_buffer=[Tensor(10 if i in owning else 0, 8448) for i in range(layers)],
    )


def kv_args(main: list[tuple[Tensor, int]], page: int, **states: list[tuple[Tensor, int]]) -> Any:
    """Transfer arguments that move ``main`` and, by state type, ``states``: (tensor, item bytes)."""
    return SimpleNamespace(
        page_size=page,
        kv_data_ptrs=[tensor.data_ptr() for tensor, _ in main],
        kv_item_lens=[size for _, size in main],
        state_types=[SimpleNamespace(value=name) for name in states],
        state_data_ptrs=[[tensor.data_ptr() for tensor, _ in entries] for entries in states.values()],
        state_item_lens=[[size for _, size in entries] for entries in states.values()],
        aux_data_ptrs=[],
    )


def mha_args(one: Any) -> Any:
    size = one.page_size * 2 * 8 * 2
    return kv_args([(tensor, size) for tensor in (*one.k_buffer, *one.v_buffer)], one.page_size)


def dsa_args(one: Any) -> Any:
    index = [(tensor, 8448 if tensor.shape[0] else 0) for tensor in one.index_k_with_scale_buffer]
    return kv_args([(tensor, 73728) for tensor in one.kv_buffer], one.page_size, dsa=index)


@dataclass
class RecordingAgent:
    """Takes what a session reports."""

    looks: list[Look] = field(default_factory=list)
    events: list[tuple[EventKind, str, str]] = field(default_factory=list)
    totals: list[tuple[str, str, str, int]] = field(default_factory=list)
    aliases: list[str] = field(default_factory=list)

    def observe(self, look: Look) -> None:
        self.looks.append(look)

    def event(self, kind: EventKind, room: str, *, reason: str = "", **_: Any) -> None:
        self.events.append((kind, room, reason))

    def total(self, room: str, key: str, stage: Any, component: str, pages: int) -> None:
        self.totals.append((room, stage.value, component, pages))

    def learn_alias(self, name: str) -> None:
        self.aliases.append(name)

    def close(self) -> None:
        pass

    def stages(self) -> list[tuple[str, int]]:
        return [(look.stage.value, look.look) for look in self.looks]


def session(side: Side, backend: str = "mooncake", kind: str = "mha") -> tuple[Session, RecordingAgent]:
    one = mha() if kind == "mha" else dsa()
    args = mha_args(one) if kind == "mha" else dsa_args(one)
    agent = RecordingAgent()
    made = Session(
        side=side,
        agent=agent,  # type: ignore[arg-type]
        inventory=take_inventory(args, one),
        backend=backend,
        transfer_name="10.0.0.1:7000",
        guard=Guard(5, raising=True),
    )
    # Not while a test runs: it takes the jobs from the list itself.
    made.recheck_after_s = (60.0, 61.0, 62.0)
    return made, agent


def request(room: int, tokens: int, rid: str = "r1", host: str = "10.0.0.9", **more: Any) -> Any:
    return SimpleNamespace(
        rid=rid, bootstrap_room=room, bootstrap_host=host, bootstrap_port=8998,
        origin_input_ids=[0] * tokens, output_ids=[], **more,
    )  # fmt: skip


class Manager:
    """A transfer manager of the prefill side."""

    def __init__(self) -> None:
        self.transfer_infos: dict[int, dict[str, Any]] = {}
        self.request_status: dict[int, int] = {}
        self.failure_records: dict[int, str] = {}

    def wanted(
        self, room: int, *sessions: str, pages: list[int], prefix: int = 0, dummy: bool = False
    ) -> None:
        """Decode asked for ``room``."""
        self.request_status[room] = 2
        self.transfer_infos[room] = {
            name: SimpleNamespace(
                dst_kv_indices=pages, dst_aux_index=1, decode_prefix_len=prefix, is_dummy=dummy
            )
            for name in sessions
        }

    def check_status(self, room: int) -> int:
        return self.request_status[room]
