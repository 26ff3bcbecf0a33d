"""Six releases of the engine by their published wheels: each target, its parameters and its fingerprint.

Nothing of the engine is imported, and torch is not either. The wheels are taken from
``PD_TRACER_SGLANG_WHEELS``, or downloaded once into ``.cache/sglang-wheels``.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from engines.sglang.engine_env import ROOT

RELEASES = ("0.5.9", "0.5.11", "0.5.13.post1", "0.5.18", "0.5.21", "0.5.23")
WHEELS = Path(os.environ.get("PD_TRACER_SGLANG_WHEELS", ROOT / ".cache" / "sglang-wheels"))

PROBE = """
import json, sys
from pathlib import Path
from pd_tracer_hooks.sglang.doctor import diagnose
from pd_tracer_hooks.sglang.sources import SourceTree
found = diagnose(offline=True, environ={env}, tree=SourceTree(Path({root!r})), version={version!r},
                 backends=("mooncake", "nixl", "mori"))
print(json.dumps({{"torch": "torch" in sys.modules, "sglang": "sglang" in sys.modules,
                   "checks": [[c.name, c.level.value, c.message] for c in found.checks]}}))
"""


def wheel(release: str) -> Path:
    if not list(WHEELS.glob(f"sglang-{release}-*.whl")):
        WHEELS.mkdir(parents=True, exist_ok=True)
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", str(WHEELS)]
        subprocess.run([*command, f"sglang=={release}"], check=True, timeout=300)
    return next(WHEELS.glob(f"sglang-{release}-*.whl"))


@pytest.mark.parametrize("release", RELEASES)
def test_every_target_of_a_release_is_known(release: str, tmp_path: Path) -> None:
    with zipfile.ZipFile(wheel(release)) as archive:
        wanted = [
            name for name in archive.namelist() if name.startswith("sglang/srt/") and name.endswith(".py")
        ]
        archive.extractall(tmp_path, wanted)
    env = {"PD_TRACER_URL": "http://collector:8400", "PD_TRACER_DEPLOYMENT": "d"}
    probe = PROBE.format(env=env, root=str(tmp_path), version=release)
    done = subprocess.run(
        [sys.executable, "-c", probe], capture_output=True, text=True, check=True, timeout=120
    )
    found = json.loads(done.stdout)
    assert not found["torch"]
    assert not found["sglang"]
    functions = [check for check in found["checks"] if check[0].startswith("sglang.")]
    assert len(functions) >= 20
    assert [check for check in functions if check[1] != "ok"] == []
    [plugin] = [check for check in found["checks"] if check[0] == "plugin"]
    assert ("loads none" in plugin[2]) is (release == "0.5.9")
