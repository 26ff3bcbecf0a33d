"""One room: its verdict, and everything that it rests on."""

from __future__ import annotations

from typing import Literal

from pydantic import ConfigDict, Field

from pd_tracer_hooks.wire import Coverage, Owned, Side
from tracer.api.models.base import Model
from tracer.api.models.component import Component
from tracer.api.models.room_example import ROOM
from tracer.join.model import Cause, Verdict
from tracer.pagemap import CellState


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
    exonerated: bool = Field(
        False, description="It is not the cause: all that both pools have was compared in full, and is equal"
    )
    not_covered: list[str] = Field([], description="What that does not speak of; empty unless exonerated")


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


class TimelineDetail(Model):
    """The cells of which page digests came. The digests themselves are not shown."""

    layers: list[int]
    runs: list[tuple[int, int]] = Field(description="Runs `[first, count]` of the pages")
    digests: int = Field(description="Number of page digests")
    gone: bool = Field(description="The worker no longer had them; `reason` says why")


class TimelineEntry(Model):
    """One stored record: an observation (`components` is filled), an event, or page digests (`detail` is)."""

    kind: Literal["observation", "event", "detail"]
    stage: str = Field(
        description="An observation's stage, the kind of the event, or the stage that a detail belongs to"
    )
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
    component: str = Field("", description="The component that an event or a detail concerns, or empty")
    components: list[TimelineComponent] = Field([])
    detail: TimelineDetail | None = Field(None, description="What a detail covers")


class MapRow(Model):
    """Layers whose cells are alike, and the states of their pages."""

    layers: list[int]
    runs: list[tuple[int, int, CellState]] = Field(
        description="Runs `[first page, pages, state]`, one after the other from the first page to the last"
    )


class PageMap(Model):
    """The cells (a page of a layer) of one component that differs."""

    component: str
    key: str = Field(description="Transfer key, 16 hex digits; empty if no side knows one")
    pages: int
    exact: bool = Field(
        description="Page digests told cell by cell. If not, sums told which layers and pages differ, and "
        "where they meet a cell is `suspected`"
    )
    grain: int = Field(
        description="Pages that were taken together to keep the map small, as bad as the worst of them"
    )
    rows: list[MapRow]


class Neighbour(Model):
    """A room of the same pair of servers, just before or after."""

    room: str
    verdict: Verdict
    cause: Cause | None = None
    summary: str = Field(description="The verdict in words")
    last_seen: float
    offset_s: float = Field(
        description="Seconds from this room's latest report to that one's; negative before"
    )


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
    exonerated: bool = Field(False, description="All transfers of the latest attempt are exonerated")
    not_covered: list[str] = Field([], description="What that does not speak of; empty unless exonerated")
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
    map: list[PageMap] = Field(
        [], description="Where the components of the latest attempt differ, cell by cell"
    )
    neighbours: list[Neighbour] = Field(
        [], description="Rooms of the same pair of servers just before and after, by their latest report"
    )
    timeline: list[TimelineEntry] = Field(description="In the order of arrival")
    timeline_truncated: bool = Field(description="Whether the timeline leaves out its latest records")
