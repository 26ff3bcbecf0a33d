"""Reports into a file, for where no collector can be reached: ``PD_TRACER_URL=file:///path/``.

One report a line, as the JSON that would be posted; ``pd-tracer explain`` reads it. What this does not do:
answer. Nobody asks a worker for more, so page digests stay in its journal.
"""

from __future__ import annotations

import fcntl
import io
import os
import re
from collections.abc import Callable
from pathlib import Path
from urllib.parse import unquote, urlsplit

from pd_tracer_hooks.client import HttpTransport, Response, Transport
from pd_tracer_hooks.drops import Drop, Drops
from pd_tracer_hooks.settings import Settings
from pd_tracer_hooks.wire import JSON, Answer, Report, Worker, decoder, encode

_reports = decoder(Report)


class Spool:
    """A file of at most half of ``limit`` bytes, and the full one before it: ``x.jsonl`` and ``x.1.jsonl``.

    Several processes may share it. When a file is full, the one before it is overwritten: a spool holds the
    latest reports, and ``lost`` is told how many went.
    """

    def __init__(self, path: Path, limit: int, lost: Callable[[int], None]) -> None:
        self._path, self._half, self._lost = path, max(1, limit // 2), lost
        self._older = path.with_suffix(f".1{path.suffix}")
        self._file: io.FileIO | None = None

    def append(self, line: bytes) -> None:
        """Append a line. Raises ``OSError`` when it cannot be written whole."""
        file = self._locked()
        try:
            size = file.seek(0, os.SEEK_END)
            if size and size + len(line) > self._half:
                self._rotate()
                file = self._locked()
                size = file.seek(0, os.SEEK_END)
            if size:
                # Another process was killed in the middle of its line: end it, so that only it is lost.
                file.seek(size - 1)
                if file.read(1) != b"\n":
                    file.write(b"\n")
                    size += 1
            try:
                _write(file, line)
            except OSError:
                file.truncate(size)  # no half lines
                raise
        finally:
            self._unlock()

    def close(self) -> None:
        """Let go of the file, and of its lock with it."""
        file, self._file = self._file, None
        if file is not None:
            file.close()

    def _locked(self) -> io.FileIO:
        """The current file, with its lock held: never one that another process has rotated meanwhile."""
        while True:
            if self._file is None:
                self._path.parent.mkdir(parents=True, exist_ok=True)
                self._file = io.FileIO(self._path, "a+")
            fcntl.flock(self._file, fcntl.LOCK_EX)
            try:
                if os.path.samestat(os.fstat(self._file.fileno()), self._path.stat()):
                    return self._file
            except FileNotFoundError:
                pass
            self.close()

    def _unlock(self) -> None:
        if self._file is not None:
            fcntl.flock(self._file, fcntl.LOCK_UN)

    def _rotate(self) -> None:
        if self._older.exists():
            self._lost(_lines(self._older))
        self._path.replace(self._older)
        self.close()


class SpoolTransport:
    """Delivers into a :class:`Spool`. Used by one thread."""

    def __init__(self, spool: Spool) -> None:
        self._spool = spool

    def send(self, body: bytes, timeout: float) -> Response:
        """Append the report in ``body``. Raises ``OSError`` when there is no place for it."""
        report = _reports.decode(body)
        self._spool.append(encode(report, JSON) + b"\n")
        records = report.observations, report.events, report.manifests, report.details
        return Response(200, encode(Answer(accepted=sum(map(len, records)))))

    def close(self) -> None:
        """Let go of the file."""
        self._spool.close()


def spool_path(url: str, worker: Worker) -> Path:
    """The file that ``url`` names. A folder (it exists, or ends in ``/``) holds a file for each process."""
    path = Path(unquote(urlsplit(url).path))
    if url.endswith("/") or path.is_dir():
        return path / f"{re.sub(r'[^A-Za-z0-9._-]', '_', worker.id)}-{worker.boot}.jsonl"
    return path


def transport_for(settings: Settings, worker: Worker, drops: Drops) -> Transport:
    """How reports are delivered to ``settings.url``."""
    if not settings.spools:
        return HttpTransport(settings.url)

    def lost(reports: int) -> None:
        drops.add(Drop.spool_full, reports)

    return SpoolTransport(Spool(spool_path(settings.url, worker), settings.spool_bytes, lost))


def _write(file: io.FileIO, line: bytes) -> None:
    """Write all of ``line``: a full disk takes a part of it first."""
    rest = memoryview(line)
    while rest:
        rest = rest[file.write(rest) :]


def _lines(path: Path) -> int:
    with path.open("rb") as file:
        return sum(block.count(b"\n") for block in iter(lambda: file.read(1 << 20), b""))
