"""One room moved between two peers, as the schedulers would do it."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Any

from engines.sglang.engine_env import Peer, eventually
from support.serving import Server

#: Page sizes and state lists of the pools in ``real_pools.py``.
PAGE = {"mha": 16, "mla": 64, "dsa": 64, "v4": 256}


@dataclass
class Move:
    """A room: which pages go where, in which chunks, and how long the prompt is."""

    room: int
    kind: str
    source: list[int]
    target: list[int]
    tokens: int
    chunks: list[int] = field(default_factory=list)
    aux: int = 1
    prefix: int = 0
    states: tuple[list[list[int]], list[list[int]]] | None = None
    #: Send the first chunk before the forward that fills it, which writes what this seed gives.
    early: int | None = None
    #: Fill the pages with words that name their place, for a wire that must know what it hits.
    tagged: bool = False

    @property
    def page(self) -> int:
        return PAGE[self.kind]

    def parts(self) -> list[list[int]]:
        """The source pages by chunk."""
        sizes = self.chunks or [len(self.source)]
        assert sum(sizes) == len(self.source)
        ends = [sum(sizes[: i + 1]) for i in range(len(sizes))]
        return [self.source[end - size : end] for end, size in zip(ends, sizes, strict=True)]

    def part_tokens(self) -> list[int]:
        """The tokens of each chunk: whole pages but for the last."""
        left, out = self.tokens, []
        for part in self.parts():
            out.append(min(len(part) * self.page, left))
            left -= out[-1]
        return out


def state_lists(
    kind: str, source: list[int], target: list[int]
) -> tuple[list[list[int]], list[list[int]]] | None:
    """State page lists that go with a transfer: what each pool's state types are addressed by."""
    if kind == "dsa":
        return [source], [target]
    if kind == "v4":
        return [source[-1:], [1]], [target[-1:], [2]]
    return None


def move(prefill: Peer, decode: Peer, it: Move, damage: dict[str, int] | None = None) -> tuple[str, str]:
    """Move a room; (how prefill ended, how decode ended)."""
    states = it.states or state_lists(it.kind, it.source, it.target)
    source_states, target_states = states or (None, None)
    if it.tagged:
        prefill.do("fill_tagged", room=it.room, pages=it.source)
    else:
        prefill.do("fill", pages=it.source, seed=it.room, state_pages=source_states)
    decode.do("receiver", room=it.room)
    prefill.do("sender", room=it.room)
    decode.do("open", room=it.room, pages=it.target, aux=it.aux, states=target_states, prefix=it.prefix)
    prefill.post(
        "send",
        room=it.room,
        rid=f"prefill-{it.room}",
        chunks=it.parts(),
        tokens=it.part_tokens(),
        aux=it.aux,
        states=source_states,
        prefix=it.prefix,
        early=it.early,
    )
    received = decode.do(
        "receive",
        room=it.room,
        rid=f"decode-{it.room}",
        aux=it.aux,
        tokens=it.prefix + it.tokens,
        damage=damage,
    )
    return prefill.reply(), received


def verdict(
    collector: Server, room: int, expected: str | None = None, timeout: float = 10.0
) -> dict[str, Any]:
    """The settled room, as the collector answers. Prints what a person wants to know."""
    began = time.monotonic()

    def settled() -> dict[str, Any] | None:
        answer = collector.http.get(f"/rooms/{room}")
        body: dict[str, Any] = answer.json() if answer.status_code == 200 else {}
        done = body.get("settled") and (expected is None or body["verdict"] == expected)
        return body if done else None

    body: dict[str, Any] = eventually(settled, timeout)
    print(f"room {room}: {body['verdict']} ({time.monotonic() - began:.2f} s) {body['summary']}")
    return body
