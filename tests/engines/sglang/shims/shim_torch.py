"""What :mod:`sitecustomize` does to torch once it is imported."""

from __future__ import annotations

import functools
from typing import Any

_libraries: list[Any] = []


class NoEvent:
    """Stands for a CUDA event where copies are synchronous: always done."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        pass

    def record(self, stream: Any = None) -> None:
        pass

    def query(self) -> bool:
        return True

    def synchronize(self) -> None:
        pass

    def wait(self, stream: Any = None) -> None:
        pass

    def elapsed_time(self, other: Any) -> float:
        return 0.0


class NoStream:
    """Stands for a CUDA stream."""

    cuda_stream = 0
    stream_id = 0

    def synchronize(self) -> None:
        pass

    def wait_event(self, event: Any) -> None:
        pass

    def wait_stream(self, stream: Any) -> None:
        pass

    def record_event(self, event: Any = None) -> NoEvent:
        return event or NoEvent()

    def query(self) -> bool:
        return True


def _without_pinning(function: Any) -> Any:
    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        kwargs.pop("pin_memory", None)
        return function(*args, **kwargs)

    return call


def prepare(torch: Any) -> None:
    """Declare torchvision's operators; without a GPU also drop pinning, events and streams."""
    library = torch.library.Library("torchvision", "DEF")
    library.define("nms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
    library.define("qnms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
    _libraries.append(library)
    if torch.cuda.is_available():
        return
    for name in ("empty", "zeros", "ones", "full", "tensor", "arange", "empty_like", "zeros_like", "rand"):
        setattr(torch, name, _without_pinning(getattr(torch, name)))
    torch.Tensor.pin_memory = lambda self, *args, **kwargs: self
    torch.cuda.Event = NoEvent
    torch.cuda.current_stream = lambda device=None: NoStream()
