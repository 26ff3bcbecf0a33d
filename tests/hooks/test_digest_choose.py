from __future__ import annotations

import logging
import sys
from types import SimpleNamespace

import pytest

from pd_tracer_hooks.digest.choose import choose_backend
from pd_tracer_hooks.digest.cpu import CpuBackend


def torch_with(devices: bool) -> SimpleNamespace:
    return SimpleNamespace(cuda=SimpleNamespace(is_available=lambda: devices))


def failing(error: Exception) -> SimpleNamespace:
    def backend(*_args: object, **_options: object) -> None:
        raise error

    return SimpleNamespace(DEFAULT_SCRATCH_BYTES=1, GpuBackend=backend)


GPU = "pd_tracer_hooks.digest.gpu.backend"


@pytest.mark.parametrize(
    ("torch", "gpu", "level", "line"),
    [
        (None, None, logging.INFO, "torch is not installed"),
        (torch_with(False), None, logging.INFO, "no CUDA device"),
        (torch_with(True), None, logging.WARNING, "no Triton here"),
        (torch_with(True), failing(OSError("libcuda.so.1: cannot open")), logging.WARNING, "libcuda.so.1"),
        (
            torch_with(True),
            failing(ValueError("scratch of 99 bytes")),
            logging.WARNING,
            "scratch of 99 bytes",
        ),
    ],
)
def test_the_cpu_with_one_line_that_says_why(monkeypatch, caplog, torch, gpu, level, line):
    caplog.set_level(logging.INFO, "pd_tracer")
    monkeypatch.setitem(sys.modules, "torch", torch)
    monkeypatch.setitem(sys.modules, GPU, gpu)
    assert isinstance(choose_backend(), CpuBackend)
    (record,) = caplog.records
    assert (record.levelno, line in record.getMessage()) == (level, True)


def test_the_gpu_with_what_it_was_given(monkeypatch):
    made = []

    def backend(*arguments: object, **options: object) -> str:
        made.append((arguments, options))
        return "the GPU's"

    monkeypatch.setitem(sys.modules, "torch", torch_with(True))
    monkeypatch.setitem(sys.modules, GPU, SimpleNamespace(DEFAULT_SCRATCH_BYTES=32, GpuBackend=backend))
    assert choose_backend(1, scratch_bytes=7) == choose_backend() == "the GPU's"
    assert made == [((1,), {"scratch_bytes": 7}), ((None,), {"scratch_bytes": 32})]
