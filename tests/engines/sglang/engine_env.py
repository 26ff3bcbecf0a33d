"""Where the engine's environment is, and how processes of it are started. See ``setup.sh``."""

from __future__ import annotations

import json
import os
import queue
import socket
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
ROOT = HERE.parents[2]
PYTHON = Path(os.environ.get("PD_TRACER_SGLANG_PYTHON", ROOT / ".venv-sglang" / "bin" / "python"))
MISSING = f"{PYTHON} is missing: run tests/engines/sglang/setup.sh, or set PD_TRACER_SGLANG_PYTHON"


def environment(**more: str) -> dict[str, str]:
    """What processes of the engine run with here: no network, one thread, the shims in front."""
    kept = {
        name: value for name, value in os.environ.items() if not name.startswith(("PD_TRACER_", "PYTEST_"))
    }
    return {
        **kept,
        "PYTHONPATH": str(HERE / "shims"),
        "PYTHONWARNINGS": "ignore",
        "SGLANG_USE_CPU_ENGINE": "1",
        "HF_HUB_OFFLINE": "1",
        "TRANSFORMERS_OFFLINE": "1",
        "OMP_NUM_THREADS": "1",
        "MC_FORCE_TCP": "1",
        "GLOG_minloglevel": "3",
        **more,
    }


def traced(url: str, **more: str) -> dict[str, str]:
    """The environment of a traced worker. Faults of ours count and are never raised, as in production."""
    return environment(
        PD_TRACER_URL=url,
        PD_TRACER_DEPLOYMENT="engine-test",
        PD_TRACER_COVERAGE="full",
        PD_TRACER_LAYER_SUMS="1",
        PD_TRACER_FLUSH_MS="50",
        PD_TRACER_RAISE_FAULTS="0",
        **more,
    )


def free_port() -> int:
    """A port that was free a moment ago, with the next two free as well."""
    for _ in range(50):
        with socket.create_server(("127.0.0.1", 0)) as first:
            port = int(first.getsockname()[1])
        try:
            for other in (port + 1, port + 2):
                socket.create_server(("127.0.0.1", other)).close()
        except OSError:
            continue
        return port
    raise RuntimeError("no three free ports in a row")


class Peer:
    """One side on the engine's real classes, in a process of its own: see ``peer.py``."""

    def __init__(
        self,
        role: str,
        backend: str,
        kind: str,
        port: int,
        env: dict[str, str],
        log: Path,
        *,
        within: str = "",
    ) -> None:
        entered = ["ip", "netns", "exec", within] if within else []
        self._log = log
        with log.open("w") as stderr:
            self._process = subprocess.Popen(
                [*entered, str(PYTHON), str(HERE / "peer.py"), role, backend, kind, str(port)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=stderr,
                env=env,
                text=True,
            )
        self._replies: queue.Queue[dict[str, Any]] = queue.Queue()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if line.startswith("@"):
                self._replies.put(json.loads(line[1:]))
        self._replies.put({"error": "the process ended"})

    def reply(self, timeout: float = 40.0) -> Any:
        """The next reply's result. Fails with the process's log."""
        try:
            answer = self._replies.get(timeout=timeout)
        except queue.Empty:
            answer = {"error": f"no reply in {timeout} s"}
        assert "error" not in answer, f"{answer['error']}\n{self._log.read_text()[-4000:]}"
        return answer.get("result")

    def post(self, order: str, **arguments: Any) -> None:
        """Give an order without waiting for it."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps({"do": order, **arguments}) + "\n")
        self._process.stdin.flush()

    def do(self, order: str, **arguments: Any) -> Any:
        """Give an order and wait for its result."""
        self.post(order, **arguments)
        return self.reply()

    def log(self) -> str:
        """What the process wrote to stderr so far."""
        return self._log.read_text()

    def stop(self) -> None:
        """Let it deliver its reports and end; kill it if it does not."""
        try:
            if self._process.poll() is None:
                self.post("quit")
                self._process.wait(10)
        except (OSError, subprocess.TimeoutExpired):
            pass
        finally:
            if self._process.poll() is None:
                self._process.kill()
            self._process.wait()
            self._reader.join(5)
            for stream in (self._process.stdin, self._process.stdout):
                if stream is not None:
                    stream.close()

    def kill(self) -> None:
        """End it at once, as a crash would."""
        self._process.kill()
        self._process.wait()


@contextmanager
def pair(
    backend: str, kind: str, env: dict[str, str], folder: Path, decode_env: dict[str, str] | None = None
) -> Iterator[tuple[Peer, Peer]]:
    """A prefill and a decode peer that share a bootstrap server."""
    port = free_port()
    prefill = Peer("prefill", backend, kind, port, env, folder / "prefill.log")
    decode = Peer("decode", backend, kind, port, decode_env or env, folder / "decode.log")
    try:
        prefill.reply(90)
        decode.reply(90)
        yield prefill, decode
    finally:
        prefill.stop()
        decode.stop()


def eventually(look: Any, timeout: float = 10.0) -> Any:
    """The first true value of ``look()``. Fails with the last one otherwise."""
    deadline = time.monotonic() + timeout
    while True:
        value = look()
        if value or time.monotonic() > deadline:
            assert value, f"still {value!r} after {timeout} s"
            return value
        time.sleep(0.02)
