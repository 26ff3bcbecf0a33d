"""Before touching a live server: would the hooks fit this engine, and would the collector take their reports?

Run in the worker's environment, ``python -m pd_tracer_hooks doctor``. Nothing of the engine is imported:
its sources are read, so this also runs in an image build without a GPU (``--offline`` leaves the network
out as well).
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from enum import Enum
from pathlib import Path
from typing import Any

from pd_tracer_hooks.client import HttpTransport
from pd_tracer_hooks.identity import describe_worker
from pd_tracer_hooks.settings import Settings, SettingsError
from pd_tracer_hooks.sglang import fingerprints
from pd_tracer_hooks.sglang.fingerprints import Finding, Fit, Recorded
from pd_tracer_hooks.sglang.sources import SourceTree, engine_tree
from pd_tracer_hooks.version import WIRE_VERSION, __version__
from pd_tracer_hooks.wire import MSGPACK, Heartbeat, HooksState, Problem, Report, Side, decoder, encode

#: The plugin's name, as an allow-list in ``SGLANG_PLUGINS`` must have it.
PLUGIN = "pd_tracer"
#: The first release whose engine loads plugins by itself.
FIRST_WITH_PLUGINS = "sglang.srt.plugins"


class Level(str, Enum):
    """How much a finding matters."""

    ok = "ok"
    #: Works, and somebody should know.
    warning = "warning"
    #: Will not work.
    failure = "failure"


@dataclass(frozen=True)
class Check:
    """One thing that was looked at."""

    name: str
    level: Level
    message: str


@dataclass
class Diagnosis:
    """All that was found. Exit code 0 when nothing fails, 1 otherwise."""

    engine: str = "sglang"
    engine_version: str = ""
    hooks_version: str = __version__
    fingerprint: str = ""
    checks: list[Check] = field(default_factory=list)

    def add(self, name: str, level: Level, message: str) -> None:
        """Note one check's result."""
        self.checks.append(Check(name, level, message))

    @property
    def exit_code(self) -> int:
        """0, or 1 where something will not work."""
        return int(any(check.level is Level.failure for check in self.checks))

    def as_json(self) -> str:
        """For machines."""
        return json.dumps({**asdict(self), "ok": self.exit_code == 0}, indent=2)

    def as_text(self) -> str:
        """For people: what fails last, where the eye falls."""
        marks = {Level.ok: "ok     ", Level.warning: "warning", Level.failure: "FAILS  "}
        order = {Level.ok: 0, Level.warning: 1, Level.failure: 2}
        lines = [
            f"{self.engine} {self.engine_version or '(not found)'}, pd-tracer-hooks {self.hooks_version}"
        ]
        for check in sorted(self.checks, key=lambda check: order[check.level]):
            lines.append(f"{marks[check.level]} {check.name}: {check.message}")
        lines.append("ready" if self.exit_code == 0 else "not ready: see what fails above")
        return "\n".join(lines)


def diagnose(
    *,
    offline: bool = False,
    environ: Mapping[str, str] | None = None,
    tree: SourceTree | None = None,
    version: str | None = None,
    backends: Sequence[str] = ("mooncake", "nixl"),
) -> Diagnosis:
    """Look at everything. ``tree`` and ``version`` stand for an engine that is not installed here."""
    env = os.environ if environ is None else environ
    found = Diagnosis()
    settings = _check_settings(found, env)
    if tree is None:
        try:
            tree, version = engine_tree()
        except ImportError as fault:
            found.add("engine", Level.failure, f"{fault}: run this in the worker's environment")
    if tree is not None:
        found.engine_version = version or tree.version("sglang")
        _check_engine(found, tree, env, backends)
    if settings is not None and not offline:
        _check_collector(found, settings)
    elif offline:
        found.add("collector", Level.ok, "not asked (--offline)")
    return found


def record(folder: Path, tree: SourceTree | None = None, version: str | None = None) -> Path:
    """Write a fingerprint file of the engine in ``tree`` (default: the installed one) and return its path."""
    if tree is None:
        tree, version = engine_tree()
    content = fingerprints.record(tree, version or tree.version("sglang"))
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{content['version']}.json"
    path.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
    return path


def _check_settings(found: Diagnosis, env: Mapping[str, str]) -> Settings | None:
    try:
        settings = Settings.from_env(env)
    except SettingsError as fault:
        found.add("settings", Level.failure, str(fault))
        return None
    if settings is None:
        found.add("settings", Level.failure, "PD_TRACER_URL is not set: the hooks stay off")
        return None
    found.add("settings", Level.ok, f"deployment {settings.deployment}, collector {settings.url}")
    return settings


def _check_engine(
    found: Diagnosis, tree: SourceTree, env: Mapping[str, str], backends: Sequence[str]
) -> None:
    try:
        recorded = Recorded.load(env.get(fingerprints.EXTRA, ""))
    except ValueError as fault:
        found.add("fingerprints", Level.failure, str(fault))
        return
    known = found.engine_version in recorded.versions
    found.add(
        "release",
        Level.ok if known else Level.warning,
        f"{found.engine_version} is recorded"
        if known
        else f"{found.engine_version} is none of {', '.join(recorded.versions)}; each function is compared",
    )
    findings = fingerprints.examine(tree, found.engine_version, recorded, backends)
    found.fingerprint = fingerprints.combined(findings)
    for finding in findings:
        found.add(*_judged(finding))
    _check_loading(found, tree, env)


def _judged(finding: Finding) -> tuple[str, Level, str]:
    if finding.fit is Fit.known:
        return finding.path, Level.ok, f"known ({finding.fingerprint})"
    if finding.fit is Fit.changed:
        return finding.path, Level.warning, f"{finding.reason}; its parameters fit, so it is hooked"
    level = Level.failure if finding.target.essential else Level.warning
    return finding.path, level, f"{finding.reason}: it is not hooked"


def _check_loading(found: Diagnosis, tree: SourceTree, env: Mapping[str, str]) -> None:
    if not tree.has_module(FIRST_WITH_PLUGINS):
        found.add(
            "plugin",
            Level.warning,
            "this release loads none: start it by `python -m pd_tracer_hooks.launch sglang.launch_server`",
        )
        return
    allowed = [name.strip() for name in env.get("SGLANG_PLUGINS", "").split(",") if name.strip()]
    if allowed and PLUGIN not in allowed:
        listed = ",".join([*allowed, PLUGIN])
        found.add("plugin", Level.failure, f"SGLANG_PLUGINS leaves it out: set SGLANG_PLUGINS={listed}")
        return
    names = [entry.name for entry in _entry_points()]
    if PLUGIN in names:
        found.add("plugin", Level.ok, "the engine will load it in every process")
    else:
        found.add(
            "plugin", Level.failure, "its entry point is not installed: pip install pd-tracer-hooks here"
        )


def _entry_points() -> Iterable[Any]:
    from importlib.metadata import entry_points  # noqa: PLC0415

    return entry_points(group="sglang.srt.plugins")


def _check_collector(found: Diagnosis, settings: Settings) -> None:
    """Send an empty report, as an idle worker does: what refuses it would refuse all."""
    settings = replace(settings, server=f"doctor@{settings.server}")
    worker = describe_worker(
        settings, side=Side.prefill, engine="sglang", engine_version=found.engine_version
    )
    report = Report(
        wire=WIRE_VERSION,
        worker=worker,
        batch="doctor",
        sent_at=time.time(),
        heartbeat=Heartbeat(state=HooksState.dormant),
    )
    transport = HttpTransport(settings.url)
    try:
        response = transport.send(encode(report), settings.timeout_s)
    except OSError as fault:
        found.add("collector", Level.failure, f"{settings.url} cannot be reached: {fault}")
        return
    finally:
        transport.close()
    if response.status // 100 == 2:
        found.add("collector", Level.ok, f"{settings.url} took an empty report")
        return
    found.add(
        "collector", Level.failure, f"{settings.url} answered {response.status}: {_words(response.body)}"
    )


def _words(body: bytes) -> str:
    try:
        problem = decoder(Problem, MSGPACK).decode(body)
    except Exception:
        return body[:200].decode(errors="replace")
    return " ".join(part for part in (problem.error, problem.hint) if part)
