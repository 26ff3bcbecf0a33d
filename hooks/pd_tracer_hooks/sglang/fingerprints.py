"""The recorded fingerprints of each release's hooked functions, and how a source compares with them.

One JSON file a release lies under ``versions/``. A fork, or a release that came after ours, gets its own
file by ``python -m pd_tracer_hooks doctor --record DIR``; ``PD_TRACER_FINGERPRINTS`` names files or
folders that are read besides.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Any

from pd_tracer_hooks.sglang.binding import offered
from pd_tracer_hooks.sglang.sources import FunctionSource, SourceTree
from pd_tracer_hooks.sglang.targets import BACKENDS, Of, Target, concrete, rows

HERE = Path(__file__).with_name("versions")
EXTRA = "PD_TRACER_FINGERPRINTS"


class Fit(str, Enum):
    """How a function of the installed engine compares with what the hooks know."""

    known = "known"
    #: Its text is none that was recorded, and its parameters still fit.
    changed = "changed"
    #: A parameter that the hook needs is gone, or the function is.
    unfit = "unfit"


@dataclass(frozen=True)
class Finding:
    """One target against one installed engine."""

    target: Target
    path: str
    fit: Fit
    reason: str = ""
    fingerprint: str = ""


class Recorded:
    """Fingerprints by target path, over all the files that were read."""

    def __init__(self, files: Iterable[Mapping[str, Any]]) -> None:
        self.versions: list[str] = []
        self._known: dict[str, set[str]] = {}
        for content in files:
            self.versions.append(str(content["version"]))
            for path, entry in content["targets"].items():
                self._known.setdefault(path, set()).add(str(entry["fingerprint"]))

    @classmethod
    def load(cls, extra: str | None = None) -> Recorded:
        """Read our own files and those that ``extra`` (else ``PD_TRACER_FINGERPRINTS``) names.

        Raises ``ValueError`` that names the file which is no record.
        """
        named = os.environ.get(EXTRA, "") if extra is None else extra
        places = [HERE, *(Path(part) for part in named.split(os.pathsep) if part)]
        return cls(_read(path) for place in places for path in _files(place))

    def knows(self, function: FunctionSource) -> bool:
        """Whether a function has the text it had in some recorded release."""
        return function.fingerprint in self._known.get(function.path, ())


def examine(
    tree: SourceTree, version: str, recorded: Recorded, backends: Iterable[str] = BACKENDS
) -> list[Finding]:
    """Compare every target that is for ``version`` with the engine in ``tree``."""
    return [_compare(target, path, tree, recorded) for target, path in _concrete_rows(version, backends)]


def record(tree: SourceTree, version: str) -> dict[str, Any]:
    """What a fingerprint file holds for the engine in ``tree``."""
    functions = (tree.function(path) for _, path in _concrete_rows(version, BACKENDS))
    return {
        "engine": "sglang",
        "version": version,
        "targets": {
            function.path: {
                "fingerprint": function.fingerprint,
                "defined_in": function.defined_in,
                "parameters": list(function.parameters),
            }
            for function in sorted(filter(None, functions), key=lambda function: function.path)
        },
    }


def combined(findings: Iterable[Finding]) -> str:
    """One fingerprint over all targets: what the collector compares between workers."""
    lines = sorted(f"{finding.path} {finding.fingerprint}" for finding in findings)
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()[:16]


def _concrete_rows(version: str, backends: Iterable[str]) -> Iterator[tuple[Target, str]]:
    for target in rows(version):
        for backend in backends if target.of is not None else ("",):
            yield target, concrete(target, backend)


def _compare(target: Target, path: str, tree: SourceTree, recorded: Recorded) -> Finding:
    function = tree.function(path)
    if function is None:
        return Finding(target, path, Fit.unfit, "not found in the installed engine")
    lacking = [name for name in target.needs if name not in offered(function.parameters)]
    if lacking:
        reason = f"has no parameter {', '.join(lacking)} (it has {', '.join(function.parameters)})"
        return Finding(target, path, Fit.unfit, reason, function.fingerprint)
    if not recorded.knows(function):
        return Finding(target, path, Fit.changed, "its text is in no recorded release", function.fingerprint)
    return Finding(target, path, Fit.known, "", function.fingerprint)


def _files(place: Path) -> list[Path]:
    return sorted(place.glob("*.json")) if place.is_dir() else [place]


def _read(path: Path) -> Mapping[str, Any]:
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as fault:
        raise ValueError(f"{path} cannot be read as a fingerprint record: {fault}") from None
    if (
        not isinstance(content, dict)
        or "version" not in content
        or not isinstance(content.get("targets"), dict)
    ):
        raise ValueError(f"{path} is no fingerprint record: make one with doctor --record")
    return content


__all__ = ["Finding", "Fit", "Of", "Recorded", "combined", "examine", "record"]
