"""The few calls of the CUDA driver that a digest makes on an engine's thread, made directly.

Through torch the same copies and events cost several times as much. These calls only enqueue; the two
that wait, :meth:`Driver.wait` and :meth:`Driver.wait_stream`, are for threads of our own and let other
threads run meanwhile. Pointers, streams and events are integers.
"""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

_NOT_READY = 600
_RELAXED = 2
_NON_BLOCKING = 1
#: Blocking wait, no timing.
_EVENT_FLAGS = 3


class DriverError(RuntimeError):
    """A call of the CUDA driver failed."""


class Driver:
    """The CUDA driver as this process has it. Raises ``OSError`` where there is none.

    Make it on a thread that has a current CUDA context; :meth:`enter` gives it to threads that have none.
    """

    def __init__(self) -> None:
        # PyDLL keeps the interpreter lock: these calls are shorter than giving it up and getting it back.
        quick, patient = ctypes.PyDLL("libcuda.so.1"), ctypes.CDLL("libcuda.so.1")
        word, size = ctypes.c_uint64, ctypes.c_size_t
        self._to_device = _function(quick, "cuMemcpyHtoDAsync_v2", word, word, size, word)
        self._to_host = _function(quick, "cuMemcpyDtoHAsync_v2", word, word, size, word)
        self._create = _function(quick, "cuEventCreate", ctypes.POINTER(word), ctypes.c_uint)
        self._record = _function(quick, "cuEventRecord", word, word)
        self._query = _function(quick, "cuEventQuery", word)
        self._wait = _function(patient, "cuEventSynchronize", word)
        self._wait_stream = _function(patient, "cuStreamSynchronize", word)
        self._create_stream = _function(
            quick, "cuStreamCreateWithPriority", ctypes.POINTER(word), ctypes.c_uint, ctypes.c_int
        )
        self._priorities = _function(
            quick, "cuCtxGetStreamPriorityRange", ctypes.POINTER(ctypes.c_int), ctypes.POINTER(ctypes.c_int)
        )
        self._exchange_mode = _function(
            quick, "cuThreadExchangeStreamCaptureMode", ctypes.POINTER(ctypes.c_int)
        )
        self._threads = threading.local()
        self._current = _function(quick, "cuCtxGetCurrent", ctypes.POINTER(word))
        self._make_current = _function(quick, "cuCtxSetCurrent", word)
        self._context = self._current_context()
        if not self._context:
            raise DriverError("no CUDA context on this thread: use torch.cuda on it first")

    def _current_context(self) -> int:
        context = ctypes.c_uint64()
        _check(self._current(ctypes.byref(context)), "cuCtxGetCurrent")
        return context.value

    def enter(self) -> None:
        """Give the calling thread our context if it has none."""
        if getattr(self._threads, "entered", False):
            return
        if not self._current_context():
            _check(self._make_current(self._context), "cuCtxSetCurrent")
        self._threads.entered = True

    @contextmanager
    def _beside_captures(self) -> Iterator[None]:
        """Allow what is forbidden while another thread captures a graph: it would spoil the capture."""
        mode = ctypes.c_int(_RELAXED)
        _check(self._exchange_mode(ctypes.byref(mode)), "cuThreadExchangeStreamCaptureMode")
        try:
            yield
        finally:
            self._exchange_mode(ctypes.byref(mode))

    def to_device(self, target: int, source: int, size: int, stream: int) -> None:
        """Enqueue a copy of ``size`` bytes from pinned host memory."""
        if status := self._to_device(target, source, size, stream):
            _check(status, "cuMemcpyHtoDAsync")

    def to_host(self, target: int, source: int, size: int, stream: int) -> None:
        """Enqueue a copy of ``size`` bytes into pinned host memory."""
        if status := self._to_host(target, source, size, stream):
            _check(status, "cuMemcpyDtoHAsync")

    def create_stream(self) -> int:
        """A new stream of the highest priority, which waits for no other (torch would make a pool of 32)."""
        least, greatest, stream = ctypes.c_int(), ctypes.c_int(), ctypes.c_uint64()
        _check(self._priorities(ctypes.byref(least), ctypes.byref(greatest)), "cuCtxGetStreamPriorityRange")
        _check(
            self._create_stream(ctypes.byref(stream), _NON_BLOCKING, greatest), "cuStreamCreateWithPriority"
        )
        return stream.value

    def create_event(self) -> int:
        """A new event."""
        event = ctypes.c_uint64()
        _check(self._create(ctypes.byref(event), _EVENT_FLAGS), "cuEventCreate")
        return event.value

    def record(self, event: int, stream: int) -> None:
        """Enqueue an event."""
        if status := self._record(event, stream):
            _check(status, "cuEventRecord")

    def passed(self, event: int) -> bool:
        """Whether the stream has come to the event. Does not wait."""
        mode = ctypes.c_int(_RELAXED)  # as in _beside_captures, which would cost as much again
        self._exchange_mode(ctypes.byref(mode))
        status = self._query(event)
        self._exchange_mode(ctypes.byref(mode))
        if status == _NOT_READY:
            return False
        _check(status, "cuEventQuery")
        return True

    def wait(self, event: int) -> None:
        """Wait until the stream has come to the event. Not for an engine's thread."""
        with self._beside_captures():
            _check(self._wait(event), "cuEventSynchronize")

    def wait_stream(self, stream: int) -> None:
        """Wait until a stream has run dry. Not for an engine's thread."""
        with self._beside_captures():
            _check(self._wait_stream(stream), "cuStreamSynchronize")


def _function(library: Any, name: str, *arguments: Any) -> Any:
    function = library[name]
    function.argtypes = arguments
    function.restype = ctypes.c_int
    return function


def _check(status: int, call: str) -> None:
    if status:
        raise DriverError(f"{call} failed with CUDA driver error {status}")
