"""A stand-in for SGLang's kernel package on a CPU: two real functions, every other one raises when called.

``convert_weight_packed`` is left out on purpose, so that the engine takes its own native forwards.
"""

from __future__ import annotations

from typing import Any

__version__ = "0.4.10"


def assign_req_to_token_pool_cpu(
    req_pool_indices: Any,
    req_to_token: Any,
    start_offset: Any,
    end_offset: Any,
    out_cache_loc: Any,
    pool_len: Any = None,
) -> None:
    """Write each request's new locations into its row, from its start to its end."""
    done = 0
    for row, start, end in zip(
        req_pool_indices.tolist(), start_offset.tolist(), end_offset.tolist(), strict=True
    ):
        count = end - start
        req_to_token[row, start:end] = out_cache_loc[done : done + count].to(req_to_token.dtype)
        done += count


def assign_extend_cache_locs_cpu(
    req_pool_indices: Any,
    req_to_token: Any,
    start_offset: Any,
    end_offset: Any,
    out_cache_loc: Any,
    pool_len: Any = None,
) -> None:
    """Read each request's locations from its row, from its start to its end, one after another."""
    done = 0
    for row, start, end in zip(
        req_pool_indices.tolist(), start_offset.tolist(), end_offset.tolist(), strict=True
    ):
        count = end - start
        out_cache_loc[done : done + count] = req_to_token[row, start:end].to(out_cache_loc.dtype)
        done += count


def __getattr__(name: str) -> Any:
    if name.startswith("__") or name == "convert_weight_packed":
        raise AttributeError(name)

    def missing(*args: Any, **kwargs: Any) -> Any:
        raise NotImplementedError(f"sgl_kernel.{name} is not part of the CPU stand-in")

    missing.__name__ = name
    return missing
