"""Any buffer in host memory as plain bytes, without copying it.

Reads the memory itself: no conversion of types, no method of the tensor that could wait for a device.
"""

from __future__ import annotations

import ctypes
import sys
from typing import Any


def byte_view(buffer: Any) -> memoryview:
    """The bytes of ``buffer`` as a flat view that shares its memory.

    ``buffer``: a contiguous torch tensor on the CPU of any dtype, a contiguous numpy array of any
    dtype, or anything else with a contiguous buffer (bytes, bytearray, memoryview, array, mmap).
    The view keeps ``buffer`` alive. Raises ``ValueError`` for memory that is not contiguous or not on
    the host, ``TypeError`` for what is no buffer.
    """
    torch = sys.modules.get("torch")  # whoever holds a tensor has imported it
    if torch is not None and isinstance(buffer, torch.Tensor):
        return _tensor_view(buffer)
    numpy = sys.modules.get("numpy")
    if numpy is not None and isinstance(buffer, numpy.ndarray):
        if not buffer.flags.c_contiguous:
            raise ValueError(f"array of shape {buffer.shape} and strides {buffer.strides} is not contiguous")
        # Through uint8, since dtypes of other packages (bfloat16, float8) have no buffer format.
        return memoryview(buffer.reshape(-1).view(numpy.uint8))
    try:
        view = memoryview(buffer)
    except TypeError as error:
        raise TypeError(
            f"{type(buffer).__name__} is no buffer: give a tensor, an array or a bytes-like object"
        ) from error
    if not view.c_contiguous:
        raise ValueError(f"{type(buffer).__name__} of shape {view.shape} is not contiguous")
    return view.cast("B")


def _tensor_view(tensor: Any) -> memoryview:
    if tensor.device.type != "cpu":
        raise ValueError(f"tensor on {tensor.device}: this path reads host memory only")
    if not tensor.is_contiguous():
        raise ValueError(
            f"tensor of shape {tuple(tensor.shape)} and strides {tensor.stride()} is not contiguous"
        )
    size = tensor.numel() * tensor.element_size()
    if size == 0:
        return memoryview(b"")
    # By address: works for every dtype and needs no numpy.
    raw = (ctypes.c_ubyte * size).from_address(tensor.data_ptr())
    raw.owner = tensor
    return memoryview(raw).cast("B")
