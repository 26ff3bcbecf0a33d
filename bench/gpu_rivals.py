"""What else could be done with the same pages: checksums that torch and SGLang have, and keeping a copy."""

from __future__ import annotations

import statistics
import zlib
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from gpu_rooms import Rooms, gpu_ms, median_us


def adler32() -> Any:
    """SGLang's own kernels, compiled, or None with the reason printed."""
    try:
        from sglang.kernels.ops.memory import adler32 as module  # noqa: PLC0415 - may be absent

        data = torch.randint(0, 256, (40, 8448), dtype=torch.uint8, device="cuda")
        order = torch.tensor([7, 3, 39, 0], device="cuda")
        found = module.adler32_strided_checksum([data.data_ptr()], [8448], [order])
        wanted = zlib.adler32(data[order].cpu().numpy().tobytes())
        assert found == wanted, f"Adler-32 {found:x}, zlib says {wanted:x}"
        return module._jit_adler32_module()
    except Exception as error:
        print(f"SGLang's Adler-32 kernel: not available ({type(error).__name__}: {error})")
        return None


def adler32_us(module: Any, rooms: Rooms, pages: int) -> float:
    """GPU time of SGLang's two kernels over a room, addresses and lengths ready on the device."""
    lists = rooms.page_lists(pages)
    bases = np.array([buffer.data_ptr() for buffer in rooms.pool.buffers.values()], np.int64)
    items = pages * rooms.layers
    addresses = [
        torch.from_numpy((bases[:, None] + each.astype(np.int64) * rooms.layout.page_bytes).ravel()).cuda()
        for each in lists
    ]
    lengths = torch.full((items,), rooms.layout.page_bytes, dtype=torch.int32, device="cuda")
    blocks = -(-items // 256)
    states = torch.empty(2 * blocks, dtype=torch.int64, device="cuda")
    result = torch.empty(1, dtype=torch.int64, device="cuda")

    def work() -> None:
        for each in addresses:
            module.adler32_strided(each, lengths, states, items)
            module.adler32_reduce(states, result, blocks)

    try:
        return median_us(work, len(lists), 5)
    except Exception:  # a kernel that cannot be captured is timed as it is launched
        torch.cuda.synchronize()
        return statistics.median(gpu_ms(work, 5)) * 1000 / len(lists)


def _gathered(rooms: Rooms, pages: int) -> tuple[list[torch.Tensor], list[torch.Tensor]]:
    lists = [torch.from_numpy(each.astype(np.int64)).cuda() for each in rooms.page_lists(pages)]
    return lists, [buffer.view(rooms.held, -1) for buffer in rooms.pool.buffers.values()]


def hash_tensor_us(rooms: Rooms, pages: int) -> float | None:
    """Gather each layer's pages and ``torch.hash_tensor`` them (an XOR: swapped words escape it)."""
    if not hasattr(torch, "hash_tensor"):
        return None
    lists, layers = _gathered(rooms, pages)

    def work() -> None:
        for each in lists:
            for layer in layers:
                torch.hash_tensor(layer[each])

    return median_us(work, len(lists), 5)


def clone_and_compare_us(rooms: Rooms, pages: int) -> float:
    """Keep a copy of the room's pages and compare them later: what costs no digest, but memory."""
    lists, layers = _gathered(rooms, pages)

    def work() -> None:
        for each in lists:
            kept = [layer[each] for layer in layers]
            for layer, copy in zip(layers, kept, strict=True):
                layer[each].ne(copy).any()

    return median_us(work, len(lists), 5)


def ceilings_gbs() -> tuple[float, float]:
    """GB/s of ``torch.sum`` over fp32 (bytes read) and of a copy (bytes read and written)."""
    data = torch.zeros(1 << 31, dtype=torch.float32, device="cuda").uniform_()
    other = torch.empty_like(data)
    size = data.numel() * 4

    def rate(work: Callable[[], object], moved: int) -> float:
        return moved / (statistics.median(gpu_ms(work, 9)) * 1e6)

    return rate(data.sum, size), rate(lambda: other.copy_(data), 2 * size)
