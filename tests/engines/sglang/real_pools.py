"""Pools of the engine's own classes, small, on the CPU: MHA, DSA with index keys, and DeepSeek-V4."""

from __future__ import annotations

from typing import Any

import torch

SIZE = 1024
LAYERS = 3


def mha(page_size: int = 16) -> Any:
    from sglang.srt.mem_cache.memory_pool import MHATokenToKVPool

    return MHATokenToKVPool(
        size=SIZE,
        page_size=page_size,
        dtype=torch.bfloat16,
        head_num=2,
        head_dim=64,
        layer_num=LAYERS,
        device="cpu",
        enable_memory_saver=False,
    )


def mla(page_size: int = 64) -> Any:
    from sglang.srt.mem_cache.memory_pool import MLATokenToKVPool

    return MLATokenToKVPool(
        size=SIZE,
        page_size=page_size,
        dtype=torch.bfloat16,
        kv_lora_rank=512,
        qk_rope_head_dim=64,
        layer_num=LAYERS,
        device="cpu",
        enable_memory_saver=False,
    )


def dsa(page_size: int = 64, skip: tuple[bool, ...] = (False, True, False)) -> Any:
    """Of its three layers the middle one reuses another's choice and owns no index keys."""
    from sglang.srt.mem_cache.memory_pool import DSATokenToKVPool

    return DSATokenToKVPool(
        size=SIZE,
        page_size=page_size,
        dtype=torch.bfloat16,
        kv_lora_rank=512,
        qk_rope_head_dim=64,
        layer_num=LAYERS,
        device="cpu",
        index_head_dim=128,
        enable_memory_saver=False,
        kv_cache_dim=576,
        skip_topk_layers=list(skip),
    )


def v4(page_size: int = 256) -> Any:
    from sglang.srt.mem_cache.deepseek_v4_memory_pool import DeepSeekV4TokenToKVPool

    return DeepSeekV4TokenToKVPool(
        max_num_reqs=8,
        swa_size=SIZE,
        c4_size=SIZE // 4,
        c128_size=16,
        c4_state_pool_size=64,
        c128_state_pool_size=512,
        page_size=page_size,
        swa_page_size=page_size,
        dtype=torch.uint8,
        c4_state_dtype=torch.float32,
        c128_state_dtype=torch.float32,
        qk_nope_head_dim=448,
        qk_rope_head_dim=64,
        indexer_head_dim=128,
        layer_num=4,
        device="cpu",
        enable_memory_saver=False,
        compression_ratios=[0, 4, 128, 4],
    )


KINDS = {"mha": mha, "mla": mla, "dsa": dsa, "v4": v4}
