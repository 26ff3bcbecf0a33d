"""A real prefill and decode server with the real router, on the CPU; and one server to compare with."""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import signal
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import httpx
from engines.sglang.engine_env import HERE, PYTHON, environment, free_port, traced

COMMON = [
    "--device",
    "cpu",
    "--attention-backend",
    "torch_native",
    "--sampling-backend",
    "pytorch",
    "--disable-overlap-schedule",
    "--skip-server-warmup",
    "--mem-fraction-static",
    "0.1",
    "--max-total-tokens",
    "16384",
    "--max-running-requests",
    "16",
    "--page-size",
    "16",
    "--chunked-prefill-size",
    "128",
    "--host",
    "127.0.0.1",
]
HOST = "127.0.0.1"
UP_S = 150.0


def make_model(folder: Path) -> Path:
    """The tiny model, made once."""
    if not (folder / "made.json").exists():
        command = [str(PYTHON), str(HERE / "tiny_model.py"), str(folder)]
        subprocess.run(command, env=environment(), check=True, capture_output=True, timeout=120)
    return folder


@dataclass
class Process:
    """A server process and all that it spawns, in a group of its own."""

    name: str
    log: Path
    popen: subprocess.Popen[bytes]

    @classmethod
    def start(cls, name: str, arguments: Sequence[str], env: dict[str, str], folder: Path) -> Process:
        log = folder / f"{name}.log"
        with log.open("wb") as out:
            popen = subprocess.Popen(
                [str(PYTHON), "-m", *arguments], env=env, stdout=out, stderr=out, start_new_session=True
            )
        return cls(name, log, popen)

    def tail(self, size: int = 3000) -> str:
        return self.log.read_text(errors="replace")[-size:]

    def stop(self, how: int = signal.SIGTERM) -> None:
        """End the group that this process leads; kill what is left of it after some seconds."""
        for signum, patience in ((how, 8.0), (signal.SIGKILL, 8.0)):
            try:
                os.killpg(self.popen.pid, signum)
            except ProcessLookupError:
                break
            try:
                self.popen.wait(patience)
            except subprocess.TimeoutExpired:
                continue
        self.popen.wait()
        with contextlib.suppress(ProcessLookupError):  # what outlived its leader
            os.killpg(self.popen.pid, signal.SIGKILL)


@dataclass
class Answer:
    """What one request came to."""

    prompt: str
    status: int
    text: str = ""


@dataclass
class Service:
    """Where requests go, and the processes behind it."""

    url: str
    processes: list[Process] = field(default_factory=list)

    def __getitem__(self, name: str) -> Process:
        return next(process for process in self.processes if process.name == name)

    def wait(self) -> None:
        """Until a real request is answered: health checks are answered too early."""
        deadline = time.monotonic() + UP_S
        while True:
            for process in self.processes:
                code = process.popen.poll()
                assert code is None, f"{process.name} ended with {code}\n{process.tail()}"
            try:
                answer = httpx.post(f"{self.url}/generate", json=_body("up?", 1), timeout=20)
                if answer.status_code == 200:
                    return
            except httpx.HTTPError:
                pass
            logs = "\n".join(f"== {p.name}\n{p.tail()}" for p in self.processes)
            assert time.monotonic() < deadline, f"not up after {UP_S} s\n{logs}"
            time.sleep(0.3)

    def ask(
        self, prompts: Sequence[str], at_once: int = 12, tokens: int = 8, timeout: float = 60.0
    ) -> list[Answer]:
        """Send all prompts, at most so many at once."""
        return asyncio.run(_ask(self.url, prompts, at_once, tokens, timeout))

    def stop(self) -> None:
        for process in reversed(self.processes):
            process.stop()


def prompts(count: int, seed: int = 3, lengths: Sequence[int] = (5, 40, 130, 300, 600)) -> list[str]:
    """Prompts of mixed length: within a page, of several pages, of several chunks."""
    rnd = random.Random(seed)
    return ["".join(rnd.choice("abcdefgh ") for _ in range(rnd.choice(lengths))) for _ in range(count)]


@contextmanager
def single(model: Path, folder: Path) -> Iterator[Service]:
    """One server that does both."""
    port = free_port()
    arguments = ["sglang.launch_server", "--model-path", str(model), *COMMON, "--port", str(port)]
    service = Service(f"http://{HOST}:{port}")
    service.processes.append(Process.start("single", arguments, environment(), folder))
    try:
        service.wait()
        yield service
    finally:
        service.stop()


@contextmanager
def disaggregated(
    model: Path, folder: Path, collector: str, backend: str = "mooncake_tcp", **env: str
) -> Iterator[Service]:
    """Prefill, decode and router, traced. ``env`` goes to both servers."""
    bootstrap, prefill, decode, router = free_port(), free_port(), free_port(), free_port()
    variables = traced(collector, **env) if collector else environment(**env)
    service = Service(f"http://{HOST}:{router}")
    for name, port, more in (
        ("prefill", prefill, ()),
        ("decode", decode, ("--disaggregation-decode-retraction-backup", "cpu_tensor")),
    ):
        arguments = [
            "sglang.launch_server", "--model-path", str(model), *COMMON, "--port", str(port),
            "--disaggregation-mode", name, "--disaggregation-transfer-backend", backend,
            "--disaggregation-bootstrap-port", str(bootstrap), *more,
        ]  # fmt: skip
        service.processes.append(Process.start(name, arguments, variables, folder))
    routing = ["sglang_router.launch_router", "--pd-disaggregation", "--mini-lb"]
    routing += ["--host", HOST, "--port", str(router)]
    routing += ["--prefill", f"http://{HOST}:{prefill}", str(bootstrap)]
    routing += ["--decode", f"http://{HOST}:{decode}"]
    service.processes.append(Process.start("router", routing, environment(), folder))
    try:
        service.wait()
        yield service
    finally:
        service.stop()


def _body(prompt: str, tokens: int) -> dict[str, object]:
    return {"text": prompt, "sampling_params": {"temperature": 0, "max_new_tokens": tokens}}


async def _ask(url: str, asked: Sequence[str], at_once: int, tokens: int, timeout: float) -> list[Answer]:
    limit = asyncio.Semaphore(at_once)

    async with httpx.AsyncClient(timeout=timeout, limits=httpx.Limits(max_connections=at_once)) as client:

        async def one(prompt: str) -> Answer:
            async with limit:
                try:
                    answer = await client.post(f"{url}/generate", json=_body(prompt, tokens))
                except httpx.HTTPError as fault:
                    return Answer(prompt, 0, repr(fault))
                text = answer.json().get("text", "") if answer.status_code == 200 else answer.text
                return Answer(prompt, answer.status_code, text)

        return list(await asyncio.gather(*(one(prompt) for prompt in asked)))
