"""What the demo asks of a transfer engine, and the engines that it has."""

from __future__ import annotations

import ctypes
import importlib.util
from collections.abc import Callable, Iterable
from typing import Any, Protocol

from tracer.demo.copies import Copies
from tracer.demo.plan import Engine

#: Modules, and what to install for them.
_MODULES = {
    "nixl": ({"torch", "numpy", "nixl_cu12"}, "torch==2.13.0 numpy nixl-cu12==1.5.1"),
    "mooncake": (
        {"torch", "numpy", "mooncake"},
        "torch==2.13.0 numpy mooncake-transfer-engine-non-cuda==0.3.13.post1",
    ),
}
#: Libraries that Mooncake's wheel expects of the system.
_LIBRARIES = {"libibverbs.so.1": "libibverbs1", "libnuma.so.1": "libnuma1", "libcurl.so.4": "libcurl4"}


class Write(Protocol):
    """A write that was posted. ``done`` turns true in :meth:`Link.poll`."""

    done: bool


class Link(Protocol):
    """One process's end of the transfer engine: registers memory, knows peers, writes to them."""

    #: The name by which peers call this end.
    name: str
    #: Bytes of the writes that are done, and their number.
    bytes_moved: int
    writes_done: int
    signals_heard: int

    def register(self, tensors: Iterable[Any]) -> None:
        """Make tensors reachable for transfers, as source or as target."""

    def metadata(self) -> bytes:
        """What a peer needs to reach this end's memory; take it after :meth:`register`."""

    def connect(self, metadata: bytes) -> str:
        """Get to know a peer; returns its name."""

    def write(self, copies: Copies, peer: str, signal: bytes = b"") -> Write:
        """Post ``copies`` to ``peer``; with ``signal`` it is told once they are there. At least one copy."""

    def signal(self, peer: str, signal: bytes) -> None:
        """Send a signal that belongs to no write."""

    def signals(self) -> list[bytes]:
        """Signals that came since the last call."""

    def poll(self) -> bool:
        """Make progress; whether a write was finished by it."""

    @property
    def outstanding(self) -> int:
        """Writes that are posted and not done."""


def make_link(engine: Engine, name: str, host: str, carry: Callable[[bytes], None]) -> Link:
    """An end of ``engine`` at address ``host``.

    ``carry`` takes signals to the peer, for an engine that has none of its own. Mooncake chooses the name.
    """
    if engine == "mooncake":
        from tracer.demo.mooncake import MooncakeLink  # noqa: PLC0415 - an optional dependency

        return MooncakeLink(host, carry)
    from tracer.demo.link import NixlLink  # noqa: PLC0415 - an optional dependency

    return NixlLink(name)


def what_is_missing(engine: Engine) -> str:
    """What must be installed before ``engine`` can run, in one line; empty when nothing is missing."""
    modules, packages = _MODULES[engine]
    missing = [name for name in sorted(modules) if importlib.util.find_spec(name) is None]
    if missing:
        return f"{', '.join(missing)} not installed: pip install {packages}"
    if engine == "mooncake":
        absent = [package for library, package in _LIBRARIES.items() if not _loads(library)]
        if absent:
            return f"Mooncake needs system libraries: apt-get install -y {' '.join(absent)}"
    return ""


def _loads(library: str) -> bool:
    try:
        ctypes.CDLL(library)
    except OSError:
        return False
    return True
