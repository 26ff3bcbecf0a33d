"""What the tests on a GPU share. They need pytest, torch, triton, numpy and msgspec alone."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

import pytest


def _missing() -> str:
    try:
        import torch
        import triton  # noqa: F401
    except ImportError as error:
        return f"needs a GPU with torch and triton: {error}"
    return "" if torch.cuda.is_available() else "needs a GPU: torch sees no CUDA device"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = Path(__file__).parent
    reason = _missing()
    for item in items:
        if here in item.path.parents:
            item.add_marker(pytest.mark.gpu)
            if reason:
                item.add_marker(pytest.mark.skip(reason=reason))


@pytest.fixture(scope="session")
def backend() -> Any:
    from pd_tracer_hooks.digest.gpu.backend import GpuBackend

    return GpuBackend()


@contextmanager
def _no_waiting() -> Iterator[None]:
    import torch

    torch.cuda.synchronize()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # torch says that it does not see every kind of wait
            torch.cuda.set_sync_debug_mode("error")
        yield
    finally:
        torch.cuda.set_sync_debug_mode("default")


@pytest.fixture
def no_waiting() -> Callable[[], AbstractContextManager[None]]:
    """Within it any wait for the device through torch is an error."""
    return _no_waiting


@pytest.fixture
def make_pool(backend: Any) -> Callable[..., Any]:
    """Random buffers on the device for a layout, prepared."""
    import torch

    from pd_tracer_hooks.digest.backend import Pool

    def make(layout: Any, layers: tuple[int, ...] = (0,), pages: int = 8, seed: int = 1) -> Pool:
        generator = torch.Generator("cuda").manual_seed(seed)
        buffers = {
            layer: torch.randint(
                0, 256, (pages * layout.page_bytes,), dtype=torch.uint8, device="cuda", generator=generator
            )
            for layer in layers
        }
        pool = Pool("kv", layout, buffers)
        backend.prepare(pool)
        return pool

    return make


@pytest.fixture
def busy() -> Callable[[float], None]:
    """Keeps the current stream busy for some milliseconds, without waiting."""
    import torch

    cycles_a_ms = 1_000_000  # above any clock of today's parts would only make it longer

    def occupy(milliseconds: float) -> None:
        torch.cuda._sleep(int(milliseconds * 2 * cycles_a_ms))

    return occupy
