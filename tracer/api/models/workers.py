"""The workers that reported."""

from __future__ import annotations

from pydantic import ConfigDict, Field

from pd_tracer_hooks.wire import HooksState, Side
from tracer.api.models.base import Model


class HeldComponent(Model):
    """A component of a worker's pool, by its manifest."""

    name: str
    moved: bool = Field(description="Whether the transfer moves it: held and not moved is a finding")
    layers: int = Field(description="Number of layers")
    memory: str
    signature: str


class Setup(Model):
    """How the hooks stand in a worker's engine."""

    attached: list[str] = Field(description="Functions of the engine that are hooked")
    missing: dict[str, str] = Field(description="Those that are not, and why")
    changed: list[str] = Field(description="Hooked functions whose source is none that is known")
    notes: dict[str, str] = Field(description="What is not traced, and why")
    config: dict[str, str] = Field(description="What the worker was started with; secrets are left out")


class Heartbeat(Model):
    """The hooks' own state."""

    state: HooksState
    uptime_s: float
    queued: int
    faults: int


class Worker(Model):
    """One rank of one engine instance: its latest boot."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "worker": "decode-0",
                    "deployment": "docs",
                    "side": "decode",
                    "server": "D0",
                    "rank": 0,
                    "boot": "b1",
                    "engine": "sglang",
                    "engine_version": "0.5.6",
                    "run": "kv=bf16,graph=on",
                    "aliases": ["10.0.0.2:8998"],
                    "first_seen": 1764000000.01,
                    "last_seen": 1764000000.21,
                    "age_s": 7.3,
                    "heartbeat": {"state": "active", "uptime_s": 3600.0, "queued": 0, "faults": 0},
                    "drops": {"queue_full": 2},
                    "manifest": [
                        {
                            "name": "index_k",
                            "moved": True,
                            "layers": 41,
                            "memory": "device",
                            "signature": "cfd893a7291743bc",
                        }
                    ],
                }
            ]
        }
    )
    worker: str
    deployment: str
    side: Side
    server: str
    rank: int
    boot: str
    model: str = ""
    host: str = ""
    node: str = ""
    pod: str = ""
    gpu: str = ""
    nic: str = ""
    engine: str = ""
    engine_version: str = ""
    hooks_version: str = ""
    fingerprint: str = ""
    config_hash: str = ""
    run: str = ""
    aliases: list[str] = Field([], description="Names by which peers call this worker's server")
    first_seen: float
    last_seen: float
    age_s: float = Field(description="Seconds since its last report, by the collector's clock")
    heartbeat: Heartbeat | None
    drops: dict[str, int] = Field(description="Records lost since this boot, by reason")
    manifest: list[HeldComponent] | None = Field(description="null: this boot has not sent one")
    setup: Setup | None = Field(None, description="null: its hooks do not say")
    unlike: list[str] = Field([], description="In what it differs from most workers of its deployment")


class Workers(Model):
    """The workers that reported."""

    workers: list[Worker]
