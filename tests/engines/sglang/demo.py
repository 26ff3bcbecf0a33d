"""``make demo-sglang``: a real SGLang pair with its router, damaged on purpose, and what was found.

Everything runs on this machine's CPU: a collector, two servers, the router, load, and a plugin that flips
bits in the decode server's pages. Ends with the table of what was injected against what was found, and with
``pd-tracer verify``'s steps. Exit status 1 if something was missed or a sound room was blamed.
"""

from __future__ import annotations

import json
import logging
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

import typer
from engines.sglang.engine_env import MISSING, PYTHON, eventually
from engines.sglang.servers import disaggregated, make_model, prompts
from support.serving import Server, serve

from tracer.client import Client
from tracer.settings import Settings
from tracer.verify.run import verify

app = typer.Typer(add_completion=False)


@app.command()
def demo(
    requests: int = 200,
    every: int = 5,
    backend: str = "mooncake_tcp",
    at_once: int = 12,
    kinds: str = "flip,overwrite",
) -> None:
    """Serve, damage, and show what was found."""
    logging.disable(logging.INFO)
    if not PYTHON.exists():
        raise typer.BadParameter(MISSING)
    with tempfile.TemporaryDirectory(prefix="pd-tracer-sglang-") as name:
        folder = Path(name)
        settings = Settings(
            host="127.0.0.1",
            port=0,
            database_url=f"sqlite:///{folder}/rooms.db",
            send_deadline_s=5,
            open_deadline_s=5,
        )
        with serve(settings) as collector:
            print(f"collector at {collector.url}")
            log = folder / "faults.jsonl"
            began = time.monotonic()
            model = make_model(folder / "model")
            faults = {"FAULTS_LOG": str(log), "FAULTS_EVERY": str(every), "FAULTS_KINDS": kinds}
            with disaggregated(model, folder, collector.url, backend, **faults) as service:
                print(f"prefill, decode and router up in {time.monotonic() - began:.0f} s, over {backend}")
                began = time.monotonic()
                answers = service.ask(prompts(requests), at_once=at_once)
                took = time.monotonic() - began
                served = Counter(answer.status for answer in answers)[200]
                print(f"{served} of {requests} requests served, {requests / took:.0f} a second")
                waited = _settle(collector, requests)
                print(f"every room settled {waited:.1f} s after the last answer\n")
                missed = _table(collector, [json.loads(line) for line in log.read_text().splitlines()])
                print()
                with Client(collector.url) as client:
                    for outcome in verify(client, service.url):
                        print(f"verify: {outcome.step.value}: {outcome.message}")
    raise typer.Exit(int(missed > 0))


def _settle(collector: Server, rooms: int) -> float:
    began = time.monotonic()

    def done() -> bool:
        body = collector.http.get("/summary").json()
        return sum(body["rooms"]["counts"].values()) >= rooms and not body["pending"]["rooms"]

    eventually(done, 20)
    return time.monotonic() - began


def _table(collector: Server, injected: list[dict[str, Any]]) -> int:
    """Print injected against found; the number of rooms that came out wrong."""
    print(f"{'room':>20}  {'injected':<32}  found")
    wrong = 0
    for fault in injected:
        room = collector.http.get(f"/rooms/{fault['room']}").json()
        place = f"{fault['kind']} {fault['component']} layer {fault['layer']} page {fault['page']}"
        found = f"{room['verdict']} {room['cause'] or ''}".strip()
        right = False
        for component in room["components"]:
            if component["verdict"] == "mismatch":
                where = component["where"] or {}
                found += (
                    f": {component['component']} layer {where.get('layers')} page {where.get('page_runs')}"
                )
                right = component["component"] == fault["component"] and where.get("page_runs") == [
                    [fault["page"], 1]
                ]
        wrong += not right
        print(f"{fault['room']:>20}  {place:<32}  {found}{'' if right else '   <- missed'}")
    touched = {fault["room"] for fault in injected}
    page = collector.http.get("/rooms", params={"verdict": "mismatch", "limit": 1000}).json()
    blamed = [room["room"] for room in page["rooms"] if room["room"] not in touched]
    counts = collector.http.get("/summary").json()["rooms"]["counts"]
    print(f"\n{len(injected) - wrong} of {len(injected)} found where they were injected")
    print(f"{len(blamed)} sound rooms blamed")
    print("rooms by verdict:", ", ".join(f"{name} {count}" for name, count in sorted(counts.items())))
    return wrong + len(blamed)


if __name__ == "__main__":
    app()
