"""Off is off: without a URL nothing of ours, torch's or the engine's is imported, and nothing is wrapped."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Any

import pytest

PROBE = """
import json, sys
before = set(sys.modules)
{action}
new = sorted(set(sys.modules) - before)
print(json.dumps(new))
"""


def imported_by(action: str, **environ: str) -> list[str]:
    env = {name: value for name, value in os.environ.items() if not name.startswith("PD_TRACER_")}
    done = subprocess.run(
        [sys.executable, "-c", PROBE.format(action=action)],
        env={**env, **environ},
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    loaded: list[str] = json.loads(done.stdout.splitlines()[-1])
    return loaded


@pytest.mark.parametrize("environ", [{}, {"PD_TRACER_URL": ""}, {"PD_TRACER_URL": "  "}])
@pytest.mark.parametrize("call", ["register()", "attach()"])
def test_plugin_without_url_imports_nothing(environ: dict[str, str], call: str) -> None:
    loaded = imported_by(f"from pd_tracer_hooks.sglang import plugin; plugin.{call}", **environ)
    assert not {"torch", "numpy", "msgspec", "sglang"} & {name.split(".")[0] for name in loaded}
    ours = {name for name in loaded if name.startswith("pd_tracer_hooks")}
    assert ours == {
        "pd_tracer_hooks",
        "pd_tracer_hooks.version",
        "pd_tracer_hooks.sglang",
        "pd_tracer_hooks.sglang.plugin",
    }


def test_settings_that_cannot_be_used_do_not_reach_the_engine() -> None:
    done = subprocess.run(
        [
            sys.executable,
            "-c",
            "from pd_tracer_hooks.sglang import plugin; plugin.register(); print('alive')",
        ],
        env={**os.environ, "PD_TRACER_URL": "http://127.0.0.1:9"},
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    assert done.stdout == "alive\n"
    assert "PD_TRACER_DEPLOYMENT is missing" in done.stderr


def test_hooks_import_no_torch_before_a_pool_is_at_hand() -> None:
    modules = "process, doctor, session, pools, buffers, later, on_import"
    loaded = imported_by(f"from pd_tracer_hooks.sglang import {modules}")
    assert "torch" not in loaded
    assert not any(name == "sglang" or name.startswith("sglang.") for name in loaded)


def test_launch_without_url_leaves_the_environment_alone(tmp_path: Any) -> None:
    (tmp_path / "shown.py").write_text(
        "import os, sys; print(os.environ.get('PYTHONPATH', ''), sys.argv[1:], __name__)\n"
    )
    env = {name: value for name, value in os.environ.items() if not name.startswith("PD_TRACER_")}
    done = subprocess.run(
        [sys.executable, "-m", "pd_tracer_hooks.launch", "shown", "--port", "1"],
        env={**env, "PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    assert done.stdout == f"{tmp_path} ['--port', '1'] __main__\n"
