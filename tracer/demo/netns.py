"""Network namespaces and the links between them, by ``ip`` and a few calls. Needs root on Linux."""

from __future__ import annotations

import ctypes
import fcntl
import os
import shutil
import socket
import struct
import subprocess
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

T = TypeVar("T")

_CLONE_NEWNET = 0x40000000
_SIOCETHTOOL, _ETHTOOL_STXCSUM = 0x8946, 0x17

#: Frames as large as a link takes: fewer of them pass through Python.
MTU = 60_000


def why_not() -> str:
    """Why no namespace can be made here, in one line; empty if it can."""
    if os.geteuid() != 0:
        return "network namespaces need root"
    if shutil.which("ip") is None:
        return "ip is not installed: apt-get install -y iproute2"
    name = f"pdt{os.getpid()}x"
    tried = _ip("netns", "add", name)
    if tried.returncode != 0:
        return f"no network namespace can be made here: {tried.stderr.strip()}"
    _ip("netns", "del", name)
    return ""


def add_end(namespace: str, inner: str, outer: str, address: str) -> None:
    """Make ``namespace`` with a link: ``inner`` with ``address`` (CIDR) in it, ``outer`` here.

    Raises ``RuntimeError`` with what ``ip`` says.
    """
    for command in (
        ("netns", "add", namespace),
        ("link", "add", outer, "mtu", str(MTU), "type", "veth", "peer", "name", inner, "netns", namespace),
        ("-n", namespace, "link", "set", inner, "mtu", str(MTU)),
        ("-n", namespace, "addr", "add", address, "dev", inner),
        ("-n", namespace, "link", "set", "lo", "up"),
        ("-n", namespace, "link", "set", inner, "up"),
        ("link", "set", outer, "up"),
    ):
        done = _ip(*command)
        if done.returncode != 0:
            raise RuntimeError(f"ip {' '.join(command)}: {done.stderr.strip()}")
    # Else frames leave without a checksum, which a link in memory needs not, and longer than the MTU.
    inside(namespace, lambda: _checksum_in_software(inner))


def remove_end(namespace: str, outer: str) -> None:
    """Undo :func:`add_end`, as far as it came."""
    _ip("link", "del", outer)
    _ip("netns", "del", namespace)


def inside(namespace: str, action: Callable[[], T]) -> T:
    """Run ``action`` in ``namespace``. Sockets that it makes stay there. Raises what it raises."""
    results: list[T] = []
    errors: list[BaseException] = []

    def run() -> None:
        try:
            _enter(namespace)
            results.append(action())
        except BaseException as error:
            errors.append(error)

    # A namespace is a thread's: this one ends with it.
    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    if errors:
        raise errors[0]
    return results[0]


def _enter(namespace: str) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    with Path(f"/run/netns/{namespace}").open() as handle:
        if libc.setns(handle.fileno(), _CLONE_NEWNET) != 0:
            raise OSError(ctypes.get_errno(), f"cannot enter the network namespace {namespace}")


def _checksum_in_software(interface: str) -> None:
    import array  # noqa: PLC0415

    command = array.array("B", struct.pack("II", _ETHTOOL_STXCSUM, 0))
    request = struct.pack("16sP", interface.encode(), command.buffer_info()[0])
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        fcntl.ioctl(any_socket.fileno(), _SIOCETHTOOL, request)


def _ip(*arguments: str) -> subprocess.CompletedProcess[str]:
    command: Sequence[str] = ("ip", *arguments)
    return subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603 - fixed words
