"""The one table of what is hooked: where, when, with which arguments, in which releases.

A new release that moves something is a new row or a changed ``since``/``until`` here, together with a
file of fingerprints under ``versions/``. Rows with ``of`` name a method of whichever manager, sender or
receiver class the server uses; they are attached once the engine has made its manager.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum

ROOT = "sglang.srt"
PREFILL = f"{ROOT}.disaggregation.prefill"
DECODE = f"{ROOT}.disaggregation.decode"
BACKENDS = ("mooncake", "nixl", "mori")
OLDEST = "0.5.9"


class When(str, Enum):
    """When a handler runs, relative to the engine's own function."""

    before = "before"
    after = "after"
    around = "around"


class Of(str, Enum):
    """Which of a transfer backend's classes a method belongs to."""

    manager = "Manager"
    sender = "Sender"
    receiver = "Receiver"


@dataclass(frozen=True)
class Target:
    """One function of the engine, and the handler that watches it.

    ``path`` is dotted, or the method's bare name where ``of`` is given. ``needs`` are the parameters the
    handler cannot do without. ``essential``: without it no room can be compared on that side.
    ``if_loaded``: only in processes that have the module already; importing it would cost the others.
    """

    path: str
    when: When
    handler: str
    needs: tuple[str, ...] = ()
    of: Of | None = None
    side: str = ""
    since: str = OLDEST
    until: str = ""
    essential: bool = False
    if_loaded: bool = False

    def fits(self, version: str) -> bool:
        """Whether this row is for ``version`` (bounds included; an unreadable version fits all)."""
        here = version_key(version)
        if not here:
            return True
        return version_key(self.since) <= here and (not self.until or here <= version_key(self.until))


def version_key(version: str) -> tuple[int, ...]:
    """A version as numbers that compare: ``0.5.13.post1`` becomes (0, 5, 13, 1)."""
    head = re.match(r"\d+(\.\d+)*", version)
    if head is None:
        return ()
    post = re.search(r"\.post(\d+)", version)
    return (*(int(part) for part in head.group().split(".")), int(post.group(1)) if post else 0)


_before, _after, _around = When.before, When.after, When.around

TARGETS: tuple[Target, ...] = (
    # Before the engine sizes its pools: what memory of a device the digest needs is taken now.
    Target(
        f"{ROOT}.model_executor.model_runner.ModelRunner.configure_kv_cache_dtype",
        _before, "sizing", ("self",), if_loaded=True,
    ),
    # Where a side begins: buffers, item lengths and layers of what the transfer will move.
    Target(
        f"{PREFILL}.PrefillBootstrapQueue._init_kv_manager",
        _after, "prefill_ready", ("self",), side="prefill", essential=True,
    ),
    Target(
        f"{DECODE}.DecodePreallocQueue._init_kv_manager",
        _after, "decode_ready", ("self",), side="decode", essential=True,
    ),
    # Prefill: which request a transfer belongs to, the transfer itself, the end of its pages.
    Target(
        f"{PREFILL}.SchedulerDisaggregationPrefillMixin.send_kv_chunk",
        _around, "sending", ("req",), side="prefill",
    ),
    Target(
        "add_transfer_request", _before, "send", ("self", "bootstrap_room", "kv_indices", "index_slice",
        "is_last_chunk"), of=Of.manager, side="prefill", essential=True,
    ),
    Target("init", _after, "sender_ready", ("self", "num_kv_indices"), of=Of.sender, side="prefill"),
    Target("abort", _before, "sender_aborted", ("self",), of=Of.sender, side="prefill", since="0.5.11"),
    Target(
        f"{PREFILL}.SchedulerDisaggregationPrefillMixin.optimistic_release_and_requeue",
        _before, "retracted", ("req",), side="prefill", since="0.5.13",
    ),
    # Decode: pages handed out, arrival, first use.
    Target(f"{DECODE}.DecodePreallocQueue._pre_alloc", _before, "allocating", ("req",), side="decode"),
    Target(
        "init", _before, "opened", ("self", "kv_indices"), of=Of.receiver, side="decode", until="0.5.9",
        essential=True,
    ),
    Target(
        "send_metadata", _before, "opened", ("self", "kv_indices"), of=Of.receiver, side="decode",
        since="0.5.11", essential=True,
    ),
    Target(
        f"{DECODE}.DecodeTransferQueue._commit_transfer_to_req",
        _before, "received", ("decode_req",), side="decode", essential=True,
    ),
    Target(
        f"{ROOT}.disaggregation.decode_schedule_batch_mixin.ScheduleBatchDisaggregationDecodeMixin"
        ".process_prebuilt",
        _before, "admitted", ("self",), side="decode",
    ),
    Target("abort", _before, "receiver_aborted", ("self",), of=Of.receiver, side="decode", since="0.5.11"),
    Target(
        f"{ROOT}.managers.schedule_batch.ScheduleBatch.retract_decode",
        _around, "retracting", ("self",), side="decode",
    ),
    # Decode, the engine's own checksum of a whole request.
    Target(
        f"{DECODE}.SchedulerDisaggregationDecodeMixin._verify_kv_checksums",
        _around, "checksums", ("self", "batch"), side="decode", since="0.5.21",
    ),
    # Both: the engine's own signals, and who owns a page.
    Target(
        "update_status", _after, "status", ("self", "bootstrap_room", "status"), of=Of.manager,
    ),
    Target(f"{ROOT}.mem_cache.common.release_kv_cache", _before, "released", ("req",)),
    Target(
        f"{ROOT}.mem_cache.allocator.PagedTokenToKVPoolAllocator.free",
        _before, "tokens_freed", ("self", "free_index"), until="0.5.11",
    ),
    Target(
        f"{ROOT}.mem_cache.allocator.paged.PagedTokenToKVPoolAllocator.free",
        _before, "tokens_freed", ("self", "free_index"), since="0.5.13", until="0.5.13.post1",
    ),
    Target(
        f"{ROOT}.mem_cache.allocator.paged.PagedTokenToKVPoolAllocator._release_page_ids",
        _before, "pages_freed", ("self", "page_ids"), since="0.5.18",
    ),
    Target(
        f"{ROOT}.mem_cache.allocator.TokenToKVPoolAllocator.free",
        _before, "tokens_freed", ("self", "free_index"), until="0.5.11",
    ),
    Target(
        f"{ROOT}.mem_cache.allocator.token.TokenToKVPoolAllocator.free",
        _before, "tokens_freed", ("self", "free_index"), since="0.5.13",
    ),
)  # fmt: skip


def rows(version: str) -> tuple[Target, ...]:
    """The rows that are for one release."""
    return tuple(target for target in TARGETS if target.fits(version))


def backend_class(backend: str, of: Of) -> str:
    """Dotted path of a backend's class, as the engine names them: ``…mooncake.conn.MooncakeKVManager``."""
    return f"{ROOT}.disaggregation.{backend}.conn.{backend.capitalize()}KV{of.value}"


def module_of(path: str) -> str:
    """The module of a dotted path to a method or a function, by the engine's way of naming classes."""
    *parts, _ = path.split(".")
    return ".".join(parts[:-1] if parts[-1][:1].isupper() else parts)


def concrete(target: Target, backend: str) -> str:
    """The dotted path of ``target`` when the server uses ``backend``."""
    return target.path if target.of is None else f"{backend_class(backend, target.of)}.{target.path}"
