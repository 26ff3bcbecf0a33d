"""The collector's settings: ``PD_TRACER_*`` in the environment, or keyword arguments."""

from __future__ import annotations

import socket
from typing import Literal

from pydantic import Field, field_validator
from pydantic_settings import BaseSettings, SettingsConfigDict

from tracer.asks import AskPolicy
from tracer.join.model import Policy

PREFIX = "PD_TRACER_"


class Settings(BaseSettings):
    """Read once at start. Raises ``pydantic.ValidationError`` naming the setting that is wrong."""

    model_config = SettingsConfigDict(env_prefix=PREFIX, extra="ignore", frozen=True)

    database_url: str = Field(
        default="sqlite:///pd-tracer.db",
        description="Where reports are kept: `sqlite:///file.db` or `postgresql://user:password@host/name`",
    )
    auto_migrate: bool = Field(
        default=False,
        description="Bring PostgreSQL's schema up to date at start (SQLite's always is)",
    )
    host: str = Field(
        default="127.0.0.1",
        description="Address to listen on",
    )
    port: int = Field(
        default=8400,
        ge=0,
        le=65535,
        description="Port to listen on",
    )
    external_url: str = Field(
        default="",
        description="URL under which people reach this collector, for links",
    )
    replica: str = Field(
        default_factory=socket.gethostname,
        min_length=1,
        max_length=128,
        description="Name of this process among the collectors that share a database (default: host name)",
    )
    send_deadline_s: float = Field(
        default=180.0,
        gt=0,
        description="Seconds from the last `send` until a side that is missing is called so",
    )
    open_deadline_s: float = Field(
        default=600.0,
        gt=0,
        description="Seconds from `opened` until prefill is called missing if nothing was sent",
    )
    detail_s: float = Field(
        default=120.0,
        ge=0,
        description="Seconds for which workers are asked for a mismatch's page digests; 0: never",
    )
    detail_rooms: int = Field(default=200, ge=0, description="Rooms whose page digests are asked for at once")
    deep_s: float = Field(
        default=300.0,
        ge=0,
        description="Seconds for which a bad pair is asked for all stages and every page; 0: never",
    )
    deep_pairs: int = Field(default=4, ge=0, description="Pairs that are asked so at once")
    holdings_s: float = Field(
        default=3600.0,
        ge=0,
        description="Seconds for which is kept who held which pages of a decode worker; 0: not at all, and no"
        " room is named as the source of another's wrong bytes",
    )
    ratio_window_s: float = Field(
        default=900.0,
        gt=0,
        description="Seconds that the match ratio gauges look back",
    )
    max_body_bytes: int = Field(
        default=16 << 20,
        ge=1 << 10,
        description="Largest body of a report, in bytes; larger ones are answered 413",
    )
    max_batch_records: int = Field(
        default=20_000,
        ge=1,
        description="Most records in one report; more are answered 413",
    )
    queue_batches: int = Field(
        default=512,
        ge=1,
        description="Batches that may wait for the writer; beyond that the answer is 503",
    )
    queue_bytes: int = Field(
        default=256 << 20,
        ge=1 << 20,
        description="Bytes of batches that may wait for the writer",
    )
    log_level: Literal["debug", "info", "warning", "error"] = Field(
        default="info",
        description="Least severe level that is logged",
    )
    log_format: Literal["text", "json"] = Field(
        default="text",
        description="`text` for people, `json` for machines",
    )

    @field_validator("database_url")
    @classmethod
    def _known_database(cls, value: str) -> str:
        if value.startswith(("sqlite:", "postgresql:", "postgresql+psycopg:", "postgres:")):
            return value
        scheme = value.split(":", 1)[0]
        raise ValueError(f"scheme {scheme!r} is not known: use sqlite:///FILE or postgresql://...")

    def asks(self) -> AskPolicy:
        """What workers are asked for after a mismatch."""
        return AskPolicy(
            detail_s=self.detail_s,
            detail_rooms=self.detail_rooms,
            deep_s=self.deep_s,
            deep_pairs=self.deep_pairs,
        )

    def policy(self) -> Policy:
        """How long the join waits."""
        return Policy(send_deadline_s=self.send_deadline_s, open_deadline_s=self.open_deadline_s)


def settings_table() -> str:
    """The settings as a Markdown table: what README.md shows."""
    lines = ["| variable | default | what it is |", "|---|---|---|"]
    for name, field in Settings.model_fields.items():
        default = "host name" if field.default_factory is not None else field.default
        shown = f"`{default}`" if str(default) else "(empty)"
        lines.append(f"| `{PREFIX}{name.upper()}` | {shown} | {field.description} |")
    return "\n".join(lines)
