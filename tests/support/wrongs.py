"""Pages that hold what they should not, for tests of what is said of it."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

from support.rooms import D0, KV, P0, POLICY, Cell, Component, RoomBuilder

from pd_tracer_hooks.wire import Coverage
from tracer.join import judge
from tracer.join.model import ComponentVerdict, Donors, RoomVerdict

ALL = KV.layers
ENDS = dataclasses.replace(KV, coverage=Coverage.ends)
Build = Callable[[RoomBuilder], Any]


def cells(*pages: int, layers: tuple[int, ...] = ALL) -> set[Cell]:
    return {(layer, page) for layer in layers for page in pages}


def holding(what: str, *pages: int, layers: tuple[int, ...] = ALL) -> dict[Cell, str]:
    return dict.fromkeys(cells(*pages, layers=layers), what)


def judged(room: RoomBuilder, donors: Donors | None = None) -> RoomVerdict:
    return judge(room.entries, room.manifests, POLICY, room.now, donors or {})


def component(build: Build, donors: Donors | None = None) -> ComponentVerdict:
    room = RoomBuilder()
    build(room)
    (said,) = judged(room, donors).components
    return said


def manifests(room: RoomBuilder, kv: Component = KV) -> RoomBuilder:
    return room.manifest(P0, kv.in_manifest()).manifest(D0, kv.in_manifest())


BAD = holding("other", 3, 4)
