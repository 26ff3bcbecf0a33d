"""A plugin of the tests that damages pages in a real decode server, and writes down what it damaged.

Switched on by ``FAULTS_LOG`` (a file of JSON lines) and ``FAULTS_EVERY`` (one room in so many). The kinds in
``FAULTS_KINDS`` take turns: ``flip`` turns over one bit of one page when the transfer is done, before the
engine looks at it; ``overwrite`` does so later, while the request waits for its batch.
"""

from __future__ import annotations

import ctypes
import itertools
import json
import os
from typing import Any

KINDS = os.environ.get("FAULTS_KINDS", "flip,overwrite").split(",")

_pages: dict[int, list[int]] = {}
_todo: dict[int, str] = {}
_count = itertools.count(1)
_managers: list[Any] = []


def register() -> None:
    """Hook the engine, if the environment asks for faults."""
    if not os.environ.get("FAULTS_LOG"):
        return
    from sglang.srt.plugins.hook_registry import HookRegistry, HookType

    HookRegistry.register(
        "sglang.srt.disaggregation.common.conn.CommonKVReceiver.send_metadata", _opened, HookType.BEFORE
    )
    HookRegistry.register(
        "sglang.srt.disaggregation.common.conn.CommonKVManager.update_status", _done, HookType.BEFORE
    )
    HookRegistry.register(
        "sglang.srt.disaggregation.decode.SchedulerDisaggregationDecodeMixin._get_new_prebuilt_batch",
        _batched,
        HookType.AFTER,
    )


def _opened(receiver: Any, kv_indices: Any, *args: Any, **kwargs: Any) -> None:
    room = receiver.bootstrap_room
    if not room or len(kv_indices) == 0:
        return
    turn, rest = divmod(next(_count), int(os.environ["FAULTS_EVERY"]))
    if rest == 0:
        _pages[room] = [int(page) for page in kv_indices]
        _todo[room] = KINDS[turn % len(KINDS)]


def _done(manager: Any, bootstrap_room: int, status: int) -> None:
    _managers[:] = [manager]
    if status == 4 and _todo.get(bootstrap_room) == "flip":
        del _todo[bootstrap_room]
        _damage(manager, bootstrap_room, "flip")


def _batched(batch: Any, *args: Any, **kwargs: Any) -> None:
    for req in batch.reqs if batch is not None else ():
        if _todo.pop(req.bootstrap_room, None) == "overwrite":
            _damage(_managers[0], req.bootstrap_room, "overwrite")


def _damage(manager: Any, room: int, kind: str) -> None:
    pages = _pages.pop(room)
    args = manager.kv_args
    buffer = room % len(args.kv_data_ptrs)
    # Not the last page: it may hold a single row, and the bit must be one that was transferred.
    ordinal = room % max(len(pages) - 1, 1)
    offset = pages[ordinal] * args.kv_item_lens[buffer] + room % 256
    byte = (ctypes.c_uint8 * 1).from_address(args.kv_data_ptrs[buffer] + offset)
    byte[0] ^= 1
    layers = len(args.kv_data_ptrs) // 2
    written = {
        "room": str(room),
        "kind": kind,
        "component": "k" if buffer < layers else "v",
        "layer": buffer % layers,
        "page": ordinal,
        "pages": len(pages),
    }
    with open(os.environ["FAULTS_LOG"], "a") as log:
        log.write(json.dumps(written) + "\n")
