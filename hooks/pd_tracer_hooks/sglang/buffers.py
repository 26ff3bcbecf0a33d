"""The buffers that a pool of the engine owns, one enumerator a family of pools.

A new family is one more function in :data:`FAMILIES`. Buffers are read as they lie: never through a getter
of the engine, since a getter may wait for a layer's load and so hide the very fault that is looked for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from pd_tracer_hooks.layout import PageLayout
from pd_tracer_hooks.sglang import page_layouts


@dataclass(frozen=True)
class Buffer:
    """One layer's memory of one component. ``tokens_per_row``: sequence tokens that one row stands for."""

    component: str
    layer: int
    tensor: Any
    layout: PageLayout
    tokens_per_row: int = 1


def enumerate_buffers(pool: Any, prefix: str = "") -> list[Buffer] | None:
    """All buffers of ``pool`` with rows in them, or None for a family that is not known."""
    if pool is None:
        return []
    for cls in type(pool).__mro__:
        family = FAMILIES.get(cls.__name__)
        if family is not None:
            return [
                Buffer(prefix + b.component, b.layer, b.tensor, b.layout, b.tokens_per_row)
                for b in family(pool)
                if int(b.tensor.shape[0]) > 0
            ]
    return None


def _layers(pool: Any, count: int) -> Sequence[int]:
    named = getattr(pool, "model_layer_ids", None)
    if named is not None and len(named) == count:
        return [int(layer) for layer in named]
    start = int(getattr(pool, "start_layer", 0) or 0)
    return range(start, start + count)


def _mha(pool: Any, heads: str = "") -> Iterator[Buffer]:
    page = int(pool.page_size)
    for component, tensors in (("k", pool.k_buffer), ("v", pool.v_buffer)):
        for layer, tensor in zip(_layers(pool, len(tensors)), tensors):  # noqa: B905 - same length
            if tensor.ndim == 4:
                layout = page_layouts.head_major(tensor, page)
            else:
                layout = page_layouts.token_rows(tensor, page)
            yield Buffer(component, layer, tensor, layout)


def _mla(pool: Any) -> Iterator[Buffer]:
    for layer, tensor in zip(_layers(pool, len(pool.kv_buffer)), pool.kv_buffer):  # noqa: B905
        yield Buffer("kv", layer, tensor, page_layouts.token_rows(tensor, int(pool.page_size)))


def _dsa(pool: Any) -> Iterator[Buffer]:
    yield from _mla(pool)
    tensors = pool.index_k_with_scale_buffer
    pooled = int(getattr(pool, "index_kpool", 1) or 1)
    rows = int(pool.page_size) // pooled
    for layer, tensor in zip(_layers(pool, len(tensors)), tensors):  # noqa: B905
        yield Buffer("index_k", layer, tensor, page_layouts.index_keys(tensor, rows), pooled)


def _hybrid(pool: Any) -> Iterator[Buffer]:
    inner = enumerate_buffers(pool.full_kv_pool) or []
    local_to_global = {int(v): int(k) for k, v in pool.full_attention_layer_id_mapping.items()}
    named = getattr(pool.full_kv_pool, "model_layer_ids", None)
    for b in inner:
        layer = b.layer if named is not None else local_to_global.get(b.layer, b.layer)
        yield Buffer(b.component, layer, b.tensor, b.layout, b.tokens_per_row)


def _swa(pool: Any) -> Iterator[Buffer]:
    for inner, windowed, prefix in ((pool.full_kv_pool, False, ""), (pool.swa_kv_pool, True, "swa_")):
        to_global = {
            int(index): int(layer)
            for layer, (index, is_window) in pool.layers_mapping.items()
            if bool(is_window) is windowed
        }
        named = getattr(inner, "model_layer_ids", None)
        for b in enumerate_buffers(inner) or []:
            layer = b.layer if named is not None else to_global.get(b.layer, b.layer)
            yield Buffer(prefix + b.component, layer, b.tensor, b.layout, b.tokens_per_row)


def _v4(pool: Any) -> Iterator[Buffer]:
    first = int(getattr(pool, "_stage_start", 0))
    ratios = list(pool.compression_ratios)[first : int(getattr(pool, "_stage_end", 0)) or None]
    window = getattr(pool, "swa_kv_pool", None)
    if window is not None:
        for index, tensor in enumerate(window.kv_buffer):
            yield Buffer("swa", first + index, tensor, _v4_layout(window, tensor))
    for ratio, inner, indexer in (
        (4, pool.c4_kv_pool, pool.c4_indexer_kv_pool),
        (128, pool.c128_kv_pool, None),
    ):
        owners = [first + index for index, r in enumerate(ratios) if r == ratio]
        if inner is not None:
            for layer, tensor in zip(owners, inner.kv_buffer):  # noqa: B905
                yield Buffer(f"c{ratio}_kv", layer, tensor, _v4_layout(inner, tensor), ratio)
        for layer, tensor in zip(owners, getattr(indexer, "index_k_with_scale_buffer", None) or []):  # noqa: B905
            rows = int(indexer.page_size)  # type: ignore[union-attr]
            yield Buffer("index_k", layer, tensor, page_layouts.index_keys(tensor, rows), ratio)
    for name, pools in (
        ("state", getattr(pool, "compress_state_pools", ())),
        ("index_state", getattr(pool, "indexer_compress_state_pools", ())),
    ):
        for index, inner in enumerate(pools):
            if inner is not None:
                tensor = inner.kv_score_buffer.kv_score
                layout = PageLayout.opaque(page_layouts.page_bytes_of(tensor), page_layouts.dtype_of(tensor))
                yield Buffer(f"{name}_c{int(pool.compression_ratios[index])}", index, tensor, layout, 0)


def _v4_layout(pool: Any, tensor: Any) -> PageLayout:
    if "UniformFP8" in type(pool).__name__:
        return page_layouts.v4_rows(tensor, int(pool.page_size), "uniform_fp8")
    named = getattr(pool, "kv_layout", "v4")
    return page_layouts.v4_rows(tensor, int(pool.page_size), str(getattr(named, "value", named)).lower())


#: Class name to enumerator. Subclasses are found through their bases.
FAMILIES: dict[str, Callable[[Any], Iterator[Buffer]]] = {
    "MHATokenToKVPool": _mha,
    "MLATokenToKVPool": _mla,
    "DSATokenToKVPool": _dsa,
    "NSATokenToKVPool": _dsa,
    "HybridLinearKVPool": _hybrid,
    "SWAKVPool": _swa,
    "DeepSeekV4TokenToKVPool": _v4,
}
