"""The doctor's findings, exit code and forms, on an engine of text files and a collector that answers."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from pd_tracer_hooks.__main__ import main
from pd_tracer_hooks.sglang import doctor
from pd_tracer_hooks.sglang.doctor import Level, diagnose, record
from pd_tracer_hooks.sglang.sources import SourceTree
from pd_tracer_hooks.sglang.targets import concrete, rows

ON = {"PD_TRACER_URL": "http://127.0.0.1:9", "PD_TRACER_DEPLOYMENT": "d"}


@pytest.fixture(autouse=True)
def _installed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The entry point as an installed distribution has it, whatever this environment was installed with."""
    monkeypatch.setattr(doctor, "_entry_points", lambda: [SimpleNamespace(name="pd_tracer")])


@pytest.fixture
def engine(tmp_path: Path) -> Path:
    """An engine of text files that fits the table of 0.5.23."""
    root = tmp_path / "engine"
    modules: dict[str, dict[str, list[str]]] = {}
    for target in rows("0.5.23"):
        for backend in ("mooncake", "nixl"):
            *module, owner, name = concrete(target, backend).split(".")
            parameters = ", ".join(dict.fromkeys(("self", *target.needs)))
            method = f"    def {name}({parameters}): pass"
            if owner[0].islower():
                module, owner, method = [*module, owner], "", f"def {name}({', '.join(target.needs)}): pass"
            modules.setdefault(".".join(module), {}).setdefault(owner, []).append(method)
    for name, owners in modules.items():
        path = root.joinpath(*name.split(".")).with_suffix(".py")
        path.parent.mkdir(parents=True, exist_ok=True)
        lines = [
            text for owner, body in owners.items() for text in ([f"class {owner}:"] if owner else []) + body
        ]
        path.write_text("\n".join(lines) + "\n")
    plugins = root / "sglang/srt/plugins"
    plugins.mkdir()
    (plugins / "__init__.py").write_text("")
    return root


def look(engine: Path, **environ: str) -> doctor.Diagnosis:
    return diagnose(offline=True, environ={**ON, **environ}, tree=SourceTree(engine), version="0.5.23")


def levels(found: doctor.Diagnosis) -> dict[str, Level]:
    return {check.name: check.level for check in found.checks}


def test_a_fork_that_fits_is_ready_with_warnings(engine: Path) -> None:
    found = look(engine)
    functions = {level for name, level in levels(found).items() if name.startswith("sglang.")}
    assert functions == {Level.warning}
    assert found.exit_code == 0
    assert found.as_text().splitlines()[-1] == "ready"


def test_a_recorded_fork_has_no_warnings(engine: Path, tmp_path: Path) -> None:
    path = record(tmp_path / "known", SourceTree(engine), "0.5.23+fork")
    assert path.name == "0.5.23+fork.json"
    found = look(engine, PD_TRACER_FINGERPRINTS=str(path))
    assert {level for name, level in levels(found).items() if name.startswith("sglang.")} == {Level.ok}


@pytest.mark.parametrize(
    ("old", "new", "code"),
    [
        ("kv_indices", "page_list", 1),
        ("def add_transfer_request", "def add_request", 1),
        ("def abort", "def stop", 0),
    ],
)
def test_what_no_longer_fits_fails_if_rooms_need_it(engine: Path, old: str, new: str, code: int) -> None:
    conn = engine / "sglang/srt/disaggregation/mooncake/conn.py"
    conn.write_text(conn.read_text().replace(old, new))
    found = look(engine)
    assert found.exit_code == code
    assert any("it is not hooked" in check.message for check in found.checks)


@pytest.mark.parametrize(
    ("environ", "name", "words"),
    [
        ({"SGLANG_PLUGINS": "other"}, "plugin", "SGLANG_PLUGINS=other,pd_tracer"),
        ({"PD_TRACER_SAMPLING": "2"}, "settings", "PD_TRACER_SAMPLING"),
        ({"PD_TRACER_DEPLOYMENT": ""}, "settings", "PD_TRACER_DEPLOYMENT is missing"),
        ({"PD_TRACER_URL": ""}, "settings", "the hooks stay off"),
        ({"PD_TRACER_FINGERPRINTS": "/nowhere.json"}, "fingerprints", "/nowhere.json"),
    ],
)
def test_what_stands_in_the_way_is_named(
    engine: Path, environ: dict[str, str], name: str, words: str
) -> None:
    found = look(engine, **environ)
    [check] = [check for check in found.checks if check.name == name]
    assert check.level is Level.failure
    assert words in check.message
    assert found.exit_code == 1
    assert json.loads(found.as_json())["ok"] is False


def test_a_release_without_plugins_is_told_how(engine: Path) -> None:
    (engine / "sglang/srt/plugins/__init__.py").unlink()
    [check] = [check for check in look(engine).checks if check.name == "plugin"]
    assert "python -m pd_tracer_hooks.launch" in check.message


def test_a_collector_that_is_away_fails(engine: Path) -> None:
    found = diagnose(environ=ON, tree=SourceTree(engine), version="0.5.23")
    [check] = [check for check in found.checks if check.name == "collector"]
    assert check.level is Level.failure
    assert "cannot be reached" in check.message


def test_command_without_an_engine(monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    def absent() -> Any:
        raise ImportError("sglang is not installed here")

    monkeypatch.setattr(doctor, "engine_tree", absent)
    for name, value in ON.items():
        monkeypatch.setenv(name, value)
    assert main(["doctor", "--offline", "--json"]) == 1
    printed = json.loads(capsys.readouterr().out)
    assert any("worker's environment" in check["message"] for check in printed["checks"])
    assert main(["doctor", "--record", "/nowhere"]) == 1
