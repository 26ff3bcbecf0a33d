"""Reports out of files: what hooks wrote where no collector could be reached.

A spool is a file of JSON lines, one ``Report`` a line. A line that cannot be read costs only itself: a worker
that was killed leaves its last line cut.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO

import msgspec

from pd_tracer_hooks import wire
from pd_tracer_hooks.wire import Refusal, Report
from tracer.api.answers import Rejected
from tracer.api.reading import read_report

#: Longest line that is read, in bytes. A report's body is never larger.
MAX_LINE = 64 << 20
#: Records in one line at most.
_MAX_RECORDS = 1_000_000
#: Losses that are named one by one; the rest are counted.
_NAMED = 20


@dataclass
class Losses:
    """What could not be read: how much, and the first of it by name."""

    lines: int = 0
    records: int = 0
    named: list[str] = field(default_factory=list)

    def line(self, path: Path, number: int, reason: str) -> None:
        """A line that holds no report."""
        self.lines += 1
        self._name(f"{path}:{number}: {reason}")

    def record(self, path: Path, number: int, refusal: Refusal) -> None:
        """A record that makes no sense, in a line that is good otherwise."""
        self.records += 1
        where = f"{refusal.kind.value}[{refusal.index}]" + (f".{refusal.field}" if refusal.field else "")
        self._name(f"{path}:{number}: {where}: {refusal.reason}")

    def _name(self, what: str) -> None:
        if len(self.named) < _NAMED:
            self.named.append(what)


def read_spool(paths: Iterable[str | Path], losses: Losses | None = None) -> Iterator[Report]:
    """The reports of spool files, one file after the other; of a folder, all its ``*.jsonl``.

    Lines and records that cannot be read are left out, counted and named in ``losses``. Raises ``OSError``
    for a file that cannot be opened.
    """
    losses = losses if losses is not None else Losses()
    for path in paths:
        for file in spool_files(Path(path)):
            with file.open("rb") as lines:
                for number, line in _lines(lines):
                    report = _read(line, file, number, losses)
                    if report is not None:
                        yield report


def spool_files(path: Path) -> list[Path]:
    """``path`` itself, or the spool files in that folder by name."""
    return sorted(path.glob("*.jsonl")) if path.is_dir() else [path]


def _lines(file: BinaryIO) -> Iterator[tuple[int, bytes]]:
    """Lines and their numbers. Of one that is too long come its first :data:`MAX_LINE` bytes and one."""
    number = 0
    while line := file.readline(MAX_LINE + 1):
        number += 1
        yield number, line
        rest = line
        while len(rest) > MAX_LINE and not rest.endswith(b"\n"):
            rest = file.readline(MAX_LINE + 1)


def _read(line: bytes, path: Path, number: int, losses: Losses) -> Report | None:
    if not line.strip():
        return None
    if len(line) > MAX_LINE:
        losses.line(path, number, f"longer than {MAX_LINE >> 20} MiB")
        return None
    try:
        read = read_report(line, wire.JSON, now=math.inf, max_records=_MAX_RECORDS)
    except Rejected as error:
        cut = "" if line.endswith(b"\n") else " (the file ends in the middle of a line)"
        losses.line(path, number, error.problem.error + cut)
        return None
    for refusal in read.refused:
        losses.record(path, number, refusal)
    return msgspec.structs.replace(
        read.report,
        observations=read.observations,
        events=read.events,
        manifests=read.manifests,
        details=read.details,
    )
