"""Processes that the demo starts: their pipes, their logs, and that none of them is left behind."""

from __future__ import annotations

import os
import selectors
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

import msgspec
from msgspec import Struct

from tracer.demo.messages import Finished, FromWorker, Idle, Trouble

_decoder = msgspec.json.Decoder(FromWorker)


class ChildError(RuntimeError):
    """A process ended that should not have."""


class Child:
    """One process: JSON lines in and out, stderr into a log file."""

    def __init__(
        self,
        name: str,
        command: Sequence[str],
        log: Path,
        environment: Mapping[str, str] | None = None,
        namespace: str = "",
    ) -> None:
        self.name = name
        self.log = log
        self._partial = b""
        # ``ip`` enters the namespace and then becomes the process: there is none between.
        inside = ["ip", "netns", "exec", namespace] if namespace else []
        with log.open("wb") as stderr:
            # A session of its own: Ctrl-C reaches the demo alone, which then ends its children in order.
            self.process = subprocess.Popen(  # noqa: S603 - our own interpreter
                [*inside, sys.executable, *command],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=stderr,
                env={**os.environ, **(environment or {})},
                bufsize=0,
                start_new_session=True,
            )

    def tell(self, message: Struct) -> None:
        """Write one line to the process. Raises :class:`ChildError` if it is gone."""
        assert self.process.stdin is not None
        try:
            self.process.stdin.write(msgspec.json.encode(message) + b"\n")
        except BrokenPipeError:
            raise self.failure("ended before it was told what to do") from None

    def read(self) -> list[FromWorker]:
        """Messages that have come; blocks if none has. Raises :class:`ChildError` at the end of the pipe."""
        assert self.process.stdout is not None
        data = os.read(self.process.stdout.fileno(), 1 << 16)
        if not data:
            raise self.failure("closed its pipe")
        *lines, self._partial = (self._partial + data).split(b"\n")
        return [_decoder.decode(line) for line in lines]

    def failure(self, what: str) -> ChildError:
        """An error that shows how the process ended and the end of its log."""
        try:
            how = f"exit status {self.process.wait(2)}"
        except subprocess.TimeoutExpired:
            how = "still running"
        tail = "\n".join(self.log.read_text(errors="replace").splitlines()[-15:])
        return ChildError(f"{self.name} {what} ({how}); the end of {self.log}:\n{tail}")


class Children:
    """All processes of a demo. Leaving the context ends every one that still runs, by its process id."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._all: list[Child] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.end(self._all)

    def start(
        self,
        name: str,
        command: Sequence[str],
        environment: Mapping[str, str] | None = None,
        namespace: str = "",
    ) -> Child:
        """Start ``python COMMAND``, in a network namespace if one is named, logging to NAME.log."""
        child = Child(name, command, self._directory / f"{name}.log", environment, namespace)
        self._all.append(child)
        return child

    @staticmethod
    def end(children: Sequence[Child], patience_s: float = 3.0) -> None:
        """Ask the processes to end, and kill what has not after ``patience_s``."""
        for child in children:
            if child.process.poll() is None:
                child.process.terminate()
        deadline = time.monotonic() + patience_s
        for child in children:
            try:
                child.process.wait(max(0.0, deadline - time.monotonic()))
            except subprocess.TimeoutExpired:
                child.process.kill()
                child.process.wait()
            for pipe in (child.process.stdin, child.process.stdout):
                if pipe is not None:
                    pipe.close()


def messages(
    children: Sequence[Child], deadline: float, until: type[Idle | Finished] = Finished
) -> Iterator[tuple[Child, FromWorker]]:
    """What ``children`` say, as it comes, until the caller has heard enough or each has said ``until``.

    Raises :class:`ChildError` when one ends before that or is in trouble, ``TimeoutError`` when
    ``deadline`` (by the monotonic clock) has passed.
    """
    with selectors.DefaultSelector() as selector:
        for child in children:
            assert child.process.stdout is not None
            selector.register(child.process.stdout, selectors.EVENT_READ, child)
        while selector.get_map():
            left = deadline - time.monotonic()
            if left <= 0:
                names = ", ".join(key.data.name for key in selector.get_map().values())
                raise TimeoutError(f"its time is over (--timeout), and {names} have not finished")
            for key, _ in selector.select(left):
                for message in key.data.read():
                    if isinstance(message, Trouble):
                        raise key.data.failure(f"is in trouble: {message.text}")
                    if isinstance(message, until):
                        selector.unregister(key.fileobj)
                    yield key.data, message
