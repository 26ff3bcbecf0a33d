"""What a record costs on the engine's thread, beside a plain queue's put, interleaved in one run.

python bench/enqueue.py [--rounds 15]
"""

from __future__ import annotations

import argparse
import queue
import statistics
import time
from collections.abc import Callable

from rich.console import Console
from rich.table import Table

from pd_tracer_hooks.agent import Agent
from pd_tracer_hooks.client import Response
from pd_tracer_hooks.digest.cpu import CpuBackend
from pd_tracer_hooks.identity import describe_worker
from pd_tracer_hooks.outbox import Outbox, Queued
from pd_tracer_hooks.settings import Settings
from pd_tracer_hooks.wire import Answer, EventKind, RecordKind, Side, encode

CALLS = 2000
BAR = 3.0


class Nowhere:
    """Takes every report at once, so that only the engine's thread is measured."""

    def send(self, body: bytes, timeout: float) -> Response:
        return Response(200, encode(Answer()))

    def close(self) -> None:
        pass


def per_call(call: Callable[[int], object]) -> float:
    """Seconds a call, of :data:`CALLS`."""
    started = time.perf_counter()
    for number in range(CALLS):
        call(number)
    return (time.perf_counter() - started) / CALLS


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=15)
    rounds = parser.parse_args().rounds
    settings = Settings(url="http://127.0.0.1:9", deployment="bench", queue=10**6, flush_ms=20.0)
    worker = describe_worker(settings, side=Side.decode)
    agent = Agent(settings, worker, backend=CpuBackend(), transport=Nowhere)
    item = Queued(RecordKind.events, bytes(600))
    times: dict[str, list[float]] = {"queue.Queue.put_nowait": [], "Outbox.put": [], "Agent.event": []}
    for _ in range(rounds):
        plain: queue.Queue[Queued] = queue.Queue()
        outbox = Outbox(10**6, 10**12, wake_at=10**6)
        times["queue.Queue.put_nowait"].append(per_call(lambda _, put=plain.put_nowait: put(item)))  # type: ignore[misc]
        times["Outbox.put"].append(per_call(lambda _, put=outbox.put: put(item)))  # type: ignore[misc]
        times["Agent.event"].append(
            per_call(lambda number: agent.event(EventKind.freed, "4711", keys=["0" * 16]))
        )
    agent.close(5)
    table = Table(title=f"the engine's thread, median of {rounds} interleaved rounds of {CALLS} calls")
    for column in ("call", "µs", "of put_nowait", "bar"):
        table.add_column(column, justify="left" if column == "call" else "right")
    base = times["queue.Queue.put_nowait"]
    for name, values in times.items():
        ratio = statistics.median(value / plain for value, plain in zip(values, base, strict=True))
        bar = f"<= {BAR:g} {'met' if ratio <= BAR else 'NOT met'}" if name == "Outbox.put" else ""
        table.add_row(name, f"{1e6 * statistics.median(values):.2f}", f"{ratio:.2f}", bar)
    Console().print(table)


if __name__ == "__main__":
    main()
