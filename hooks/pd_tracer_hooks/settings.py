"""The hooks' settings: ``PD_TRACER_*`` in a worker's environment."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from typing import Any
from urllib.parse import urlsplit

from pd_tracer_hooks.client import Target
from pd_tracer_hooks.selection import parse_policy
from pd_tracer_hooks.texts import TEXT_BYTES, fit

PREFIX = "PD_TRACER_"


class SettingsError(ValueError):
    """A setting cannot be used; the message names the variable, its value and what is allowed."""


def _setting(default: Any, what: str, check: Callable[[Any], bool] | None = None, allowed: str = "") -> Any:
    return field(default=default, metadata={"what": what, "check": check, "allowed": allowed})


def _above(least: float) -> Callable[[Any], bool]:
    return lambda value: bool(value > least)


#: A day is longer than anything here should wait, and much shorter than what a lock's wait can take.
_LONGEST_S = 86_400


def _time(default: float, what: str, *, longest: int = _LONGEST_S, least: str = "above 0") -> Any:
    def check(value: Any) -> bool:
        return 0 < value <= longest or (value == 0 and least != "above 0")

    return _setting(default, what, check, f"{least}, up to {longest}")


def _label(default: str, what: str, longest: int) -> Any:
    return _setting(
        default, what, lambda value: fit(value, longest) == value, f"at most {longest} bytes of plain text"
    )


#: A worker's id is its server's name and a few characters more.
_SERVER_BYTES = TEXT_BYTES - 32


def _raise_under_pytest() -> bool:
    return "PYTEST_CURRENT_TEST" in os.environ


@dataclass(frozen=True, kw_only=True)
class Settings:
    """One worker's settings. Raises :class:`SettingsError` for a value that cannot be used.

    Each field is set by ``PD_TRACER_<NAME>``; times are in the unit that the name ends in.
    """

    url: str = field(
        metadata={
            "what": "the collector, such as `http://collector:8400`, or a folder for files, such as"
            " `file:///var/spool/pd-tracer/`; unset: hooks off"
        }
    )
    deployment: str = field(
        metadata={"what": "the pool of workers that serves one model; required with a URL"}
    )
    server: str = _label("", "name of this engine instance (default: host name)", _SERVER_BYTES)
    run: str = _label("", "labels by which runs are compared, such as `kv=bf16,graph=on`", TEXT_BYTES)
    sampling: float = _setting(
        1.0, "share of rooms that are traced", lambda value: 0.0 <= value <= 1.0, "0 to 1"
    )
    coverage: str = _setting(
        "auto",
        "`full` reads every page, `ends` head and tail; `auto`: full on a GPU, ends on the CPU",
        lambda value: value in ("auto", "ends", "full"),
        "auto, ends or full",
    )
    k: int = _setting(
        4, "pages in the head and in the tail", lambda value: 0 < value <= 65_536, "1 or more, up to 65536"
    )
    layers: str = _setting("all", "layers that are digested: `all`, `ends`, or `rotate:N` of them a room")
    layer_sums: bool = _setting(False, "send sums for each layer too, so that a bad one is named at once")
    queue: int = _setting(8192, "records that may wait to be sent", _above(0), "1 or more")
    queue_bytes: int = _setting(64 << 20, "bytes that may wait to be sent", _above(1023), "1024 or more")
    batch: int = _setting(500, "records in one post at most", _above(0), "1 or more")
    batch_bytes: int = _setting(4 << 20, "bytes in one post at most", _above(1023), "1024 or more")
    flush_ms: float = _time(200.0, "time that a record waits for company", longest=60_000)
    heartbeat_s: float = _time(5.0, "time between reports of an idle worker")
    timeout_s: float = _time(5.0, "time that one post may take")
    backoff_s: float = _time(0.5, "first pause after a post that failed")
    backoff_max_s: float = _time(30.0, "longest pause after posts that failed")
    shutdown_s: float = _time(2.0, "time to deliver what is queued at exit", least="0 or more")
    pending: int = _setting(1024, "digests under way at most", _above(0), "1 or more")
    pending_s: float = _time(60.0, "time after which a digest under way is given up")
    order_free: bool = _setting(
        False, "keep order-free sums in the journal too: tells reordered rows; twice the work of the CPU path"
    )
    journal_bytes: int = _setting(
        64 << 20,
        "host memory for the page digests of recent rooms, sent when asked for",
        lambda value: value >= 0,
        "0 or more",
    )
    deep_s: float = _setting(
        900.0,
        "longest time for which the collector may ask for all stages in full; 0: never",
        lambda value: value >= 0,
        "0 or more",
    )
    spool_bytes: int = _setting(
        1 << 30,
        "size of the files at a `file://` URL; beyond it the oldest reports go",
        _above((1 << 20) - 1),
        "1048576 or more",
    )
    max_faults: int = _setting(
        5, "own faults after which the hooks take themselves out", _above(0), "1 or more"
    )
    raise_faults: bool = field(
        default_factory=_raise_under_pytest,
        metadata={"what": "raise own faults instead of swallowing them (on under pytest)"},
    )

    def __post_init__(self) -> None:
        for spec in fields(self):
            check = spec.metadata.get("check")
            value = getattr(self, spec.name)
            if check is not None and not check(value):
                raise SettingsError(f"{_variable(spec.name)}={value!r}: use {spec.metadata['allowed']}")
        try:
            if self.spools:
                _check_file_url(self.url)
            else:
                Target.parse(self.url)
        except ValueError as error:
            raise SettingsError(f"{_variable('url')}={self.url!r}: {error}") from None
        if not self.deployment:
            raise SettingsError(f"{_variable('deployment')} is missing: name the deployment of this worker")
        if fit(self.deployment) != self.deployment:
            raise SettingsError(
                f"{_variable('deployment')}={self.deployment!r}: use at most {TEXT_BYTES} bytes of plain text"
            )
        try:
            parse_policy(self.layers)
        except ValueError as error:
            raise SettingsError(f"{_variable('layers')}: {error}") from None
        if not self.server:
            object.__setattr__(self, "server", fit(socket.gethostname(), _SERVER_BYTES) or "unnamed")

    @property
    def spools(self) -> bool:
        """Whether reports go into files."""
        return self.url.startswith("file:")

    @classmethod
    def from_env(cls, environ: Mapping[str, str] | None = None) -> Settings | None:
        """The settings in ``environ`` (default: the process's), or None while ``PD_TRACER_URL`` is unset."""
        environ = os.environ if environ is None else environ
        if not environ.get(_variable("url")):
            return None
        values: dict[str, Any] = {"deployment": ""}
        for spec in fields(cls):
            text = environ.get(_variable(spec.name))
            if text is not None and text != "":
                values[spec.name] = _parse(spec.name, str(spec.type), text)
        return cls(**values)


def _check_file_url(url: str) -> None:
    parts = urlsplit(url)
    if parts.netloc not in ("", "localhost") or not parts.path.startswith("/") or parts.query:
        raise ValueError("use file:///FOLDER/ or file:///FILE.jsonl")


def _variable(name: str) -> str:
    return PREFIX + name.upper()


_BOOLEANS = {"1": True, "true": True, "yes": True, "on": True, "0": False, "false": False, "no": False}
_BOOLEANS["off"] = False


def _parse(name: str, kind: str, text: str) -> Any:
    try:
        if kind == "bool":
            return _BOOLEANS[text.strip().lower()]
        if kind == "int":
            return int(text)
        if kind == "float":
            return float(text)
    except (KeyError, ValueError):
        wanted = {"bool": "1 or 0", "int": "a whole number", "float": "a number"}[kind]
        raise SettingsError(f"{_variable(name)}={text!r}: use {wanted}") from None
    return text


def settings_table() -> str:
    """The settings as a Markdown table, as README.md shows it."""
    lines = ["| variable | default | what it is |", "|---|---|---|"]
    for spec in fields(Settings):
        if spec.name in ("url", "deployment"):
            default = "(unset)"
        elif spec.name == "raise_faults":
            default = "`False`"
        else:
            default = f"`{spec.default}`" if spec.default != "" else "(empty)"
        lines.append(f"| `{_variable(spec.name)}` | {default} | {spec.metadata['what']} |")
    return "\n".join(lines)
