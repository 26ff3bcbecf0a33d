"""The wheels hold what runs from them, and the hooks' wheel asks for msgspec alone."""

from __future__ import annotations

import subprocess
import sys
import venv
from email.parser import Parser
from pathlib import Path
from zipfile import ZipFile

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Both wheels, built from this tree without any download."""
    out = tmp_path_factory.mktemp("wheels")
    for source in (ROOT / "hooks", ROOT):
        subprocess.run(
            [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(out)],
            cwd=source,
            check=True,
            capture_output=True,
        )
    return {path.name.split("-")[0]: path for path in out.glob("*.whl")}


def names(wheel: Path) -> set[str]:
    with ZipFile(wheel) as archive:
        return set(archive.namelist())


def metadata(wheel: Path) -> list[tuple[str, str]]:
    with ZipFile(wheel) as archive:
        (name,) = [n for n in archive.namelist() if n.endswith(".dist-info/METADATA")]
        return list(Parser().parsestr(archive.read(name).decode()).items())


def test_the_collector_s_wheel_brings_its_migrations(wheels: dict[str, Path]) -> None:
    held = names(wheels["pd_tracer"])
    assert "tracer/_migrations/env.py" in held
    assert any(name.startswith("tracer/_migrations/versions/0001") for name in held)
    assert "tracer/py.typed" in held
    assert not any(name.startswith(("tests/", "bench/", "hooks/")) for name in held)


def test_the_hooks_wheel_is_pure_and_asks_for_msgspec_alone(wheels: dict[str, Path]) -> None:
    wheel = wheels["pd_tracer_hooks"]
    assert wheel.name.endswith("-py3-none-any.whl")
    assert "pd_tracer_hooks/py.typed" in names(wheel)
    needs = [value for key, value in metadata(wheel) if key == "Requires-Dist" and "extra ==" not in value]
    assert [need.split(">=")[0].strip() for need in needs] == ["msgspec"]
    assert ("Requires-Python", ">=3.10") in metadata(wheel)


def test_both_are_of_one_release(wheels: dict[str, Path]) -> None:
    versions = {path.name.split("-")[1] for path in wheels.values()}
    assert len(versions) == 1
    assert ("Requires-Dist", f"pd-tracer-hooks=={versions.pop()}") in metadata(wheels["pd_tracer"])


def test_the_collector_s_wheel_makes_its_schema_from_any_folder(
    wheels: dict[str, Path], tmp_path: Path
) -> None:
    """Installed beside, not from this tree: what an editable install finds by luck must be in the wheel."""
    site = tmp_path / "site"
    for wheel in wheels.values():
        with ZipFile(wheel) as archive:
            archive.extractall(site)
    environment = tmp_path / "venv"
    venv.create(environment, with_pip=False, system_site_packages=False)
    libraries = next(p for p in sys.path if p.endswith("site-packages"))
    code = (
        f"import sys; sys.path[:0] = [{str(site)!r}]; sys.path.append({libraries!r});"
        "import tracer; from tracer.store.migrate import upgrade_url, head;"
        "from tracer.cli.main import app;"
        "print(tracer.__file__); upgrade_url('sqlite:///here.db')"
    )
    done = subprocess.run(
        [str(environment / "bin/python"), "-I", "-c", code],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert str(site) in done.stdout
    assert (tmp_path / "here.db").exists()
