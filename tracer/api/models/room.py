"""One room: its verdict, and everything that it rests on."""

from __future__ import annotations

from typing import Literal

from pydantic import ConfigDict, Field

from pd_tracer_hooks.wire import Coverage, Owned, Side
from tracer.api.models.base import Model
from tracer.api.models.room_example import ROOM
from tracer.join.model import Cause, Verdict


class Where(Model):
    """Where the two sides differ, as closely as the sums that were sent can tell."""

    regions: list[str] = Field([], description="Of `head`, `tail`, `body`")
    layers: list[int] = Field([], description="Global layer ids; empty without sums per layer")
    page_runs: list[tuple[int, int]] = Field(
        [], description="Runs `[first, count]` of page ordinals that hold the difference"
    )


class SideExtent(Model):
    """What one side said of a component."""

    pages: int | None = Field(default=None, description="Pages of the whole transfer, null while unknown")
    complete: bool = False
    signature: str = ""
    finals: dict[str, str] = Field(
        default={}, description="Finals of head, tail and body, 16 hex digits each"
    )


class Component(Model):
    """The verdict on one component of a transfer."""

    component: str
    verdict: Verdict
    cause: Cause | None = None
    reason: str = ""
    coverage: Coverage | None = Field(None, description="The lesser of both sides', where compared")
    layers: list[int] = Field([], description="Global ids of the layers compared")
    layers_of: int = Field(0, description="Layers that the pools have, 0 if unknown")
    prefill: SideExtent = SideExtent()
    decode: SideExtent = SideExtent()
    where: Where | None = None
    notes: list[str] = Field([])


class Transfer(Model):
    """The verdict on one transfer: one transfer key, one decode rank."""

    key: str = Field(description="Transfer key, 16 hex digits; empty if no side knows one")
    verdict: Verdict
    cause: Cause | None = None
    reason: str = ""
    components: list[Component] = Field([])
    prefill_workers: list[str] = Field([])
    decode_workers: list[str] = Field([])
    notes: list[str] = Field([])


class Attempt(Model):
    """The transfers that one decode server opened for one request."""

    number: int
    verdict: Verdict
    cause: Cause | None = None
    reason: str = ""
    prefill_server: str = Field("", description="By its alias if it never spoke, empty if nobody named it")
    decode_server: str = ""
    request_prefill: str = ""
    request_decode: str = ""
    transfers: list[Transfer] = Field([])


class TimelineComponent(Model):
    """One component's part of an observation."""

    name: str
    pages: int = Field(description="Pages of the whole transfer, as this side counts them")
    coverage: Coverage
    layers: list[int]
    runs: list[tuple[int, int]] = Field(description="Runs `[first, count]` of the pages read here")
    last: bool = Field(description="Whether the part holds the transfer's last page")
    owned: Owned
    signature: str
    sums: list[str] = Field(description="Raw cell sums of head, tail and body, 16 hex digits each")
    cells: list[int] = Field(description="Number of cells in each of them")


class TimelineEntry(Model):
    """One stored record: an observation (`components` is filled) or an event."""

    kind: Literal["observation", "event"]
    stage: str = Field(description="An observation's stage, or the kind of the event")
    side: Side
    worker: str
    server: str
    boot: str
    seq: int
    look: int = Field(0, description="Number of a repeated look at the same stage")
    at: float = Field(description="When, by the worker's own clock")
    received: float = Field(description="When it reached the collector")
    keys: list[str] = Field(description="Transfer keys, 16 hex digits each")
    request: str = ""
    peer: str = ""
    tokens: int | None = None
    reason: str = Field("", description="Why, for an event")
    component: str = Field("", description="The component that an event concerns, or empty")
    components: list[TimelineComponent] = Field([])


class Reporter(Model):
    """A worker that reported on a room."""

    worker: str
    side: Side
    server: str
    node: str = ""


class Room(Model):
    """One room: its verdict, and everything that it rests on."""

    model_config = ConfigDict(json_schema_extra={"examples": [ROOM]})

    room: str
    deployment: str
    verdict: Verdict
    cause: Cause | None = None
    summary: str = Field(description="The verdict in words")
    reason: str
    settled: bool = Field(description="Nothing that is still expected can change the verdict")
    deadline: float | None = Field(None, description="When time alone changes the verdict")
    coverage: Coverage | None = None
    components: list[Component] = Field(
        description="Of the latest attempt: for each name the worst of its transfers"
    )
    attempts: list[Attempt]
    prefill_server: str
    decode_server: str
    workers: list[Reporter]
    request_prefill: str
    request_decode: str
    trace: str
    run: str
    first_seen: float
    last_seen: float
    settled_at: float | None
    join_delay_s: float | None = Field(
        None, description="From the latest `send` to the latest `receive`, both as they reached the collector"
    )
    revisions: int
    timeline: list[TimelineEntry] = Field(description="In the order of arrival")
    timeline_truncated: bool = Field(description="Whether the timeline leaves out its latest records")
