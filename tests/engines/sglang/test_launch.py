"""``python -m pd_tracer_hooks.launch``: hooks in the processes that an engine spawns, without plugins."""

from __future__ import annotations

import json
import subprocess

import pytest
from engines.sglang.engine_env import HERE, PYTHON, environment


@pytest.mark.parametrize("url", ["http://127.0.0.1:9", ""])
def test_spawned_processes_are_hooked_only_with_a_url(url: str) -> None:
    # The allow-list leaves our plugin out, as if the release had none.
    env = environment(
        SGLANG_PLUGINS="none", PD_TRACER_DEPLOYMENT="d", **({"PD_TRACER_URL": url} if url else {})
    )
    env["PYTHONPATH"] += f":{HERE}"
    command = [str(PYTHON), "-m", "pd_tracer_hooks.launch", "launched", "--port", "1"]
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=110, cwd="/", check=False)
    line = next((line for line in done.stdout.splitlines() if line.startswith("@")), None)
    assert line is not None, done.stderr[-3000:]
    told = json.loads(line[1:])
    assert told["arguments"] == ["--port", "1"]
    if not url:
        assert told["attachments"] is None
        return
    assert len(told["attachments"]) >= 10
    assert [item for item in told["attachments"] if not item[1]] == []
