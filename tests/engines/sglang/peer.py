"""One side of a transfer on the engine's real classes, driven by lines of JSON on stdin.

Run as ``python peer.py prefill|decode BACKEND POOL BOOTSTRAP_PORT`` in the engine's environment. Real are:
the plugin loader, the queue's ``_init_kv_manager``, the manager, sender, receiver and bootstrap server, the
pool, the metadata buffers, and the scheduler's functions that are called here. Plain objects stand in for
the scheduler and the requests. Replies are lines of JSON on stdout that begin with ``@``.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from collections import Counter
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch

#: This side's own address, and the one of the prefill side's bootstrap server.
HOST = os.environ.get("PEER_HOST", "127.0.0.1")
BOOTSTRAP = os.environ.get("PEER_BOOTSTRAP", HOST)


def reply(**values: Any) -> None:
    sys.stdout.write("@" + json.dumps(values) + "\n")
    sys.stdout.flush()


def content(seed: int, size: int) -> torch.Tensor:
    return torch.from_numpy(np.random.default_rng(seed).integers(0, 256, size, dtype=np.uint8))


class Peer:
    def __init__(self, role: str, backend: str, kind: str, port: int) -> None:
        sabotage_before(os.environ.get("PEER_SABOTAGE", ""))
        if os.environ.get("PEER_WATCH"):
            watch_waits()
            watch_cost()
        from sglang.srt.plugins import load_plugins
        from sglang.srt.runtime_context import SpawnRanks, get_parallel
        from sglang.srt.server_args import ServerArgs
        from sglang.test.parallel_groups import publish

        load_plugins()
        self.role = role
        self.port = port
        self.args = ServerArgs(
            model_path="dummy",
            device="cpu",
            host=HOST,
            port=port + (1 if role == "prefill" else 2),
            disaggregation_mode=role,
            disaggregation_transfer_backend=backend,
            disaggregation_bootstrap_port=port,
            disable_overlap_schedule=True,
        )
        publish(self.args, role="scheduler", ranks=SpawnRanks(world_rank=0, gpu_id=0))
        alone = SimpleNamespace(rank_in_group=0, world_size=1, broadcast_object=lambda value, src: value)
        get_parallel().override_permanently(pp_group=alone, world_group=alone)
        import real_pools
        from sglang.srt.disaggregation import decode, prefill
        from sglang.srt.disaggregation.utils import MetadataBuffers, TransferBackend

        self.decode, self.prefill = decode, prefill
        if backend.startswith("mooncake"):
            from sglang.srt.distributed.device_communicators import mooncake_transfer_engine

            mooncake_transfer_engine.init_mooncake_transfer_engine(hostname=HOST, gpu_id=0)
        self.pool = real_pools.KINDS[kind]()
        self.page = self.pool.page_size
        self.metadata = MetadataBuffers(16, 64, torch.bfloat16, 8)
        self.bootstrap = f"{BOOTSTRAP}:{port}"
        chosen = TransferBackend.MOONCAKE if backend.startswith("mooncake") else TransferBackend(backend)
        if role == "prefill":
            self._bootstrap_server(chosen, port)
        self.manager = self._manager(chosen)
        self.requests: dict[int, Any] = {}

    def _bootstrap_server(self, backend: Any, port: int) -> None:
        from sglang.srt.disaggregation.utils import KVClassType, get_kv_class

        self.bootstrap_server = get_kv_class(backend, KVClassType.BOOTSTRAP_SERVER)(host=HOST, port=port)

    def _scheduler(self) -> Any:
        layers = max(int(getattr(self.pool, "layer_num", 1)), 1)
        return SimpleNamespace(
            rust_server=None,
            server_args=self.args,
            enable_hisparse=False,
            kv_checksum_computer=None,
            tp_worker=SimpleNamespace(model_runner=SimpleNamespace(kv_cache_dtype_str="auto")),
            model_config=SimpleNamespace(
                num_hidden_layers=layers,
                hf_text_config=SimpleNamespace(),
                get_total_num_kv_heads=lambda: getattr(self.pool, "head_num", 1),
            ),
        )

    def _manager(self, backend: Any) -> Any:
        from sglang.srt.disaggregation.utils import is_mla_backend

        cls = (
            self.prefill.PrefillBootstrapQueue if self.role == "prefill" else self.decode.DecodePreallocQueue
        )
        queue = object.__new__(cls)
        queue.__dict__.update(
            token_to_kv_pool=self.pool,
            draft_token_to_kv_pool=None,
            is_mla_backend=is_mla_backend(self.pool),
            metadata_buffers=self.metadata,
            tp_rank=0,
            pp_rank=0,
            pp_size=1,
            gpu_id=0,
            scheduler=self._scheduler(),
            transfer_backend=backend,
            enable_staging=False,
            bootstrap_port=self.args.disaggregation_bootstrap_port,
        )
        return queue._init_kv_manager()

    # What both roles are told to do.

    def fill(self, *, pages: list[int], seed: int, state_pages: list[list[int]] | None = None) -> None:
        """Write bytes that depend on the seed and the buffer into whole pages."""
        for number, (tensor, item) in enumerate(self._main()):
            flat = tensor.view(torch.uint8).reshape(-1)
            for ordinal, page in enumerate(pages):
                flat[page * item : (page + 1) * item] = content(seed + 1000 * number + ordinal, item)
        for source, lists in enumerate(state_pages or ()):
            for number, (tensor, item) in enumerate(self._state(source)):
                flat = tensor.view(torch.uint8).reshape(-1)
                for ordinal, page in enumerate(lists):
                    flat[page * item : (page + 1) * item] = content(
                        seed + 50_000 + 1000 * number + ordinal, item
                    )

    def fill_tagged(self, *, room: int, pages: list[int]) -> None:
        """Write words that say which room, buffer and page they belong to: see ``tagged.py``."""
        import tagged

        for number, (tensor, item) in enumerate(self._main()):
            flat = tensor.view(torch.uint8).reshape(-1)
            for ordinal, page in enumerate(pages):
                words = tagged.words(room, number, ordinal, item // 8)
                flat[page * item : (page + 1) * item] = torch.from_numpy(words.view(np.uint8))

    def flip(self, *, buffer: int, page: int, byte: int) -> None:
        """Flip one bit of one page of one buffer of the main list."""
        tensor, item = self._main()[buffer]
        tensor.view(torch.uint8).reshape(-1)[page * item + byte] ^= 1

    def _by_address(self) -> dict[int, torch.Tensor]:
        from pd_tracer_hooks.sglang.pools import _tensors

        return {tensor.data_ptr(): tensor for tensor in _tensors((self.pool,))}

    def _main(self) -> list[tuple[torch.Tensor, int]]:
        known, args = self._by_address(), self.manager.kv_args
        return [(known[p], n) for p, n in zip(args.kv_data_ptrs, args.kv_item_lens, strict=True) if n]

    def _state(self, source: int) -> list[tuple[torch.Tensor, int]]:
        known, args = self._by_address(), self.manager.kv_args
        pairs = zip(args.state_data_ptrs[source], args.state_item_lens[source], strict=True)
        return [(known[p], n) for p, n in pairs if n]

    def request(self, room: int, tokens: int, rid: str) -> Any:
        return SimpleNamespace(
            rid=rid,
            bootstrap_room=room,
            bootstrap_host=BOOTSTRAP,
            bootstrap_port=self.port,
            origin_input_ids=[1] * tokens,
            output_ids=[7],
            extend_end=tokens,
            finished_reason=None,
            finished=lambda: False,
            skip_radix_cache_insert=True,
            pd_rebootstrap_in_progress=False,
            is_rebootstrap=False,
            return_logprob=False,
            return_sampling_mask=False,
            grammar=None,
            swa_branching_seqlen=None,
            time_stats=SimpleNamespace(set_wait_queue_entry_time=lambda: None),
        )

    # Prefill.

    def sender(self, *, room: int) -> None:
        from sglang.srt.disaggregation.utils import KVClassType, get_kv_class

        cls = get_kv_class(self._chosen(), KVClassType.SENDER)
        self.requests[room] = cls(mgr=self.manager, bootstrap_addr=self.bootstrap, bootstrap_room=room)

    def send(
        self,
        *,
        room: int,
        rid: str,
        chunks: list[list[int]],
        tokens: list[int],
        aux: int,
        states: list[list[int]] | None = None,
        prefix: int = 0,
        early: int | None = None,
    ) -> str:
        """Send chunks of pages: what the scheduler does after each forward."""
        sender = self.requests[room]
        self._until(lambda: sender.poll() == 2, f"room {room} never waited for input")
        sender.init(sum(map(len, chunks)), aux)
        self.metadata.bootstrap_room[aux, 0] = room
        self.metadata.output_ids[aux, 0] = 7
        gate = Gate()
        for number, pages in enumerate(chunks):
            last = number == len(chunks) - 1
            if early is not None and number == 0:
                # As the scheduler does with a cached prefix that a forward may still be writing.
                sender._early_send_wait_event = gate
                threading.Timer(0.2, lambda: self._run_the_forward(gate, chunks[0], early)).start()
            state = [np.array(s, dtype=np.int32) for s in states] if last and states else None
            sender.send(np.array(pages, dtype=np.int32), state, num_kv_tokens=tokens[number])
        self._until(lambda: sender.poll() in (0, 4), f"room {room} never ended")
        done = "success" if sender.poll() == 4 else "failed"
        self._release(self.request(room, prefix + sum(tokens), rid))
        sender.clear()
        return done

    def _run_the_forward(self, gate: Any, pages: list[int], seed: int) -> None:
        """What the backend should have waited for: the pages get what they are to hold."""
        self.fill(pages=pages, seed=seed)
        gate.done.set()

    # Decode.

    def receiver(self, *, room: int) -> None:
        from sglang.srt.disaggregation.utils import KVClassType, get_kv_class

        self._until(lambda: self.manager.try_ensure_parallel_info(self.bootstrap), "no bootstrap server")
        cls = get_kv_class(self._chosen(), KVClassType.RECEIVER)
        receiver = cls(mgr=self.manager, bootstrap_addr=self.bootstrap, bootstrap_room=room)
        receiver.init(0)
        self.requests[room] = receiver

    def open(
        self, *, room: int, pages: list[int], aux: int, states: list[list[int]] | None = None, prefix: int = 0
    ) -> None:
        self.metadata.bootstrap_room[aux, 0] = 0
        state = [np.array(s, dtype=np.int32) for s in states] if states else None
        self.requests[room].send_metadata(
            np.array(pages, dtype=np.int32), aux, state, decode_prefix_len=prefix
        )

    def receive(
        self, *, room: int, rid: str, aux: int, tokens: int, damage: dict[str, int] | None = None
    ) -> str:
        """Poll as the transfer queue does, commit, and admit."""
        receiver = self.requests[room]
        self._until(
            lambda: receiver.poll() == 0 or (receiver.poll() == 4 and self._metadata_there(room, aux)),
            f"room {room} never arrived",
        )
        if receiver.poll() == 0:
            return "failed"
        if damage:
            self.flip(**damage)
        request = self.request(room, tokens, rid)
        decode_req = SimpleNamespace(
            req=request, kv_receiver=receiver, metadata_buffer_index=aux, is_rebootstrap=False
        )
        queue = object.__new__(self.decode.DecodeTransferQueue)
        queue.__dict__.update(
            metadata_buffers=self.metadata,
            scheduler=SimpleNamespace(
                kv_checksum_computer=None,
                batch_result_processor=SimpleNamespace(_maybe_update_reasoning_tokens=lambda *a: None),
            ),
            spec_algorithm=SimpleNamespace(is_none=lambda: True),
            _commit_hicache_local_restore_to_req=lambda decode_req: None,
        )
        queue._commit_transfer_to_req(decode_req)
        self._admit(request)
        self.requests[room] = request
        return "success"

    def release(self, *, room: int) -> None:
        self._release(self.requests.pop(room))

    def abort(self, *, room: int) -> None:
        self.requests[room].abort()

    def _admit(self, request: Any) -> None:
        from sglang.srt.managers.schedule_batch import ScheduleBatch

        batch = SimpleNamespace(
            reqs=[request],
            tree_cache=_Tree(),
            device="cpu",
            req_pool_indices=None,
            spec_info=None,
            spec_algorithm=SimpleNamespace(build_disagg_draft_input=lambda *a: None),
        )
        ScheduleBatch.process_prebuilt(batch, SimpleNamespace(stash=lambda *a: None))

    def _release(self, request: Any) -> None:
        from sglang.srt.mem_cache import common

        request.kv = SimpleNamespace(holds_kv=False, is_kv_released=True, holds_mamba=False)
        common.release_kv_cache(request, _Tree(), checkpoint=False)

    def _metadata_there(self, room: int, aux: int) -> bool:
        return int(self.metadata.bootstrap_room[aux, 0]) == room

    def _chosen(self) -> Any:
        from sglang.srt.disaggregation.utils import TransferBackend

        name = self.args.disaggregation_transfer_backend
        return TransferBackend.MOONCAKE if name.startswith("mooncake") else TransferBackend(name)

    @staticmethod
    def _until(condition: Any, otherwise: str, timeout: float = 20.0) -> None:
        deadline = time.monotonic() + timeout
        while not condition():
            if time.monotonic() > deadline:
                raise TimeoutError(otherwise)
            time.sleep(0.002)

    def waits(self) -> dict[str, int]:
        """Calls that would wait for a device, made from our own code, by place. See ``watch_waits``."""
        return dict(WAITS)

    def cost(self) -> dict[str, list[float]]:
        """Microseconds that each handler took on the engine's thread. See ``watch_cost``."""
        return {name: [round(1e6 * seconds, 1) for seconds in times] for name, times in COST.items()}

    def wrapped(self) -> list[str]:
        """Hooked functions that are not the engine's own text: none while the hooks are off."""
        import pkgutil

        from pd_tracer_hooks.sglang.targets import concrete, rows

        paths = [concrete(target, "mooncake") for target in rows("0.5.23")]
        return [path for path in paths if hasattr(pkgutil.resolve_name(path), "__wrapped__")]

    def attached(self) -> dict[str, Any]:
        process = sys.modules.get("pd_tracer_hooks.sglang.process")
        here = process.current() if process is not None else None
        if here is None:
            return {"process": False}
        return {
            "process": True,
            "attached": [item.path for item in here.attachments if item.attached],
            "missing": {item.path: item.reason for item in here.attachments if not item.attached},
            "faults": here.guard.faults,
            "drops": dict(here.session.agent.stats.drops) if here.session else {},
            "detached": here.guard.detached,
        }


#: What ``watch_waits`` and ``watch_cost`` saw.
WAITS: Counter[str] = Counter()
COST: dict[str, list[float]] = {}


def watch_waits() -> None:
    """Count the converters of tensors that wait for a device, where the nearest frame is ours.

    The CPU digest is left out: it reads memory that is on the host by definition.
    """

    def counting(name: str, plain: Any) -> Any:
        def call(*args: Any, **kwargs: Any) -> Any:
            frame = sys._getframe(1)
            path = frame.f_code.co_filename
            if "pd_tracer_hooks" in path and "/digest/" not in path:
                WAITS[f"{name} at {os.path.basename(path)}:{frame.f_lineno}"] += 1
            return plain(*args, **kwargs)

        return call

    for name in ("item", "tolist", "numpy", "cpu"):
        setattr(torch.Tensor, name, counting(name, getattr(torch.Tensor, name)))
    torch.cuda.synchronize = counting("synchronize", torch.cuda.synchronize)


def watch_cost() -> None:
    """Time what our handlers take, less the engine's own function where they go around it."""
    from pd_tracer_hooks.sglang.hub import Hub

    before = Hub.before

    def timed(self: Any, target: Any, call: Any) -> None:
        began = time.perf_counter()
        before(self, target, call)
        COST.setdefault(target.handler, []).append(time.perf_counter() - began)

    Hub.before = Hub.after = timed  # type: ignore[method-assign]


class Gate:
    """A device event whose work is done when a test says so."""

    def __init__(self) -> None:
        self.done = threading.Event()

    def query(self) -> bool:
        return self.done.is_set()

    def synchronize(self) -> None:
        self.done.wait(10)


def sabotage_before(kind: str) -> None:
    """Faults that must be there before the hooks attach."""
    if kind == "renamed":
        from sglang.srt.disaggregation.mooncake.conn import MooncakeKVManager

        plain = MooncakeKVManager.add_transfer_request

        def add_transfer_request(
            self: Any,
            bootstrap_room: int,
            page_list: Any,
            index_slice: slice,
            is_last_chunk: bool,
            **more: Any,
        ) -> Any:
            return plain(self, bootstrap_room, page_list, index_slice, is_last_chunk, **more)

        MooncakeKVManager.add_transfer_request = add_transfer_request
    if kind == "digest":
        from pd_tracer_hooks.digest.cpu import CpuBackend

        def launch(self: Any, request: Any) -> Any:
            raise MemoryError("the digest has none left")

        CpuBackend.launch = launch  # type: ignore[method-assign]
    if kind == "handler":
        from pd_tracer_hooks.sglang.session import Session

        def observe(*args: Any, **kwargs: Any) -> None:
            raise ZeroDivisionError("a fault of ours")

        Session._observe = observe  # type: ignore[method-assign]


class _Tree:
    """A tree cache that keeps nothing."""

    def supports_mamba(self) -> bool:
        return True

    def checkpoint(self, *args: Any, **kwargs: Any) -> None:
        pass


def main() -> None:
    role, backend, kind, port = sys.argv[1:5]
    sys.path.insert(0, os.path.dirname(__file__))
    peer = Peer(role, backend, kind, int(port))
    reply(ready=True)
    for line in sys.stdin:
        order = json.loads(line)
        name = order.pop("do")
        if name == "quit":
            break
        try:
            reply(result=getattr(peer, name)(**order))
        except Exception as fault:
            import traceback

            traceback.print_exc()
            reply(error=repr(fault))
    from pd_tracer_hooks.sglang import process

    here = process.current()
    if here is not None and here.session is not None:
        here.session.close()
    reply(closed=True)
    os._exit(0)


if __name__ == "__main__":
    main()
