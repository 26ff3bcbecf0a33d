"""Which way digests are computed in this process: on the GPU where that works, else on the CPU."""

from __future__ import annotations

import logging

from pd_tracer_hooks.digest.backend import DigestBackend
from pd_tracer_hooks.digest.cpu import CpuBackend

_log = logging.getLogger("pd_tracer")


def choose_backend(
    device: int | None = None,
    *,
    scratch_bytes: int | None = None,
    logger: logging.Logger | None = None,
) -> DigestBackend:
    """The GPU's backend, or with one log line that says why not, the CPU's.

    ``device``: index of the CUDA device (None: the current one). ``scratch_bytes``: device memory to take,
    now. Call it at attach, before the engine sizes its pools. Never raises. The CPU's path cannot read
    device memory: it serves engines and transfers whose pages are in host memory.
    """
    log = logger or _log
    try:
        import torch  # noqa: PLC0415 - the engine's, if it has one
    except ImportError:
        log.info("digests on the CPU: torch is not installed")
        return CpuBackend()
    try:
        if not torch.cuda.is_available():
            log.info("digests on the CPU: torch sees no CUDA device")
            return CpuBackend()
        # Imports triton.
        from pd_tracer_hooks.digest.gpu.backend import DEFAULT_SCRATCH_BYTES, GpuBackend  # noqa: PLC0415

        return GpuBackend(device, scratch_bytes=scratch_bytes or DEFAULT_SCRATCH_BYTES)
    except ImportError as error:
        log.warning("digests on the CPU, which cannot read device memory: no Triton here (%s)", error)
    except Exception as error:
        log.warning("digests on the CPU, which cannot read device memory: %s", error, exc_info=True)
    return CpuBackend()
