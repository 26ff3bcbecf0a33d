"""The wheel's API, with memory that the engine calls VRAM registered as DRAM where there is no GPU.

UCX refuses to register host memory as a device's. Only the four calls that take a memory kind differ.
"""

from __future__ import annotations

from typing import Any

import torch
from nixl_cu12._api import *  # noqa: F403
from nixl_cu12._api import nixl_agent as _Agent  # noqa: N812 - the wheel's name
from nixl_cu12._api import nixl_agent_config, nixl_thread_sync_t

__all__ = ["nixl_agent", "nixl_agent_config", "nixl_thread_sync_t"]


def _host(kind: Any) -> Any:
    return "DRAM" if kind in ("VRAM", "cuda") and not torch.cuda.is_available() else kind


class nixl_agent(_Agent):  # type: ignore[misc]  # noqa: N801 - the engine's name for it
    """The real agent; see the module's docstring."""

    def register_memory(self, reg_list: Any, mem_type: Any = None, *args: Any, **kwargs: Any) -> Any:
        return super().register_memory(reg_list, _host(mem_type), *args, **kwargs)

    def get_reg_descs(self, descs: Any, mem_type: Any = None, *args: Any, **kwargs: Any) -> Any:
        return super().get_reg_descs(descs, _host(mem_type), *args, **kwargs)

    def get_xfer_descs(self, descs: Any, mem_type: Any = None, *args: Any, **kwargs: Any) -> Any:
        return super().get_xfer_descs(descs, _host(mem_type), *args, **kwargs)

    def prep_xfer_dlist(
        self, agent: str, xfer_list: Any, mem_type: Any = None, *args: Any, **kwargs: Any
    ) -> Any:
        return super().prep_xfer_dlist(agent, xfer_list, _host(mem_type), *args, **kwargs)
