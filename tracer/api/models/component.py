"""The verdict on one component, and what it rests on."""

from __future__ import annotations

from pydantic import Field

from pd_tracer_hooks.wire import Coverage
from tracer.api.models.base import Model
from tracer.join.model import Cause, How, Shape, Verdict


class LayerPages(Model):
    """Runs of pages of one layer."""

    layer: int
    runs: list[tuple[int, int]] = Field(description="Runs `[first, count]`")


class Where(Model):
    """Where the two sides differ, as closely as the sums that were sent can tell."""

    regions: list[str] = Field([], description="Of `head`, `tail`, `body`")
    layers: list[int] = Field([], description="Global layer ids; empty without sums per layer")
    page_runs: list[tuple[int, int]] = Field(
        [], description="Runs `[first, count]` of page ordinals that hold the difference"
    )
    cells: list[LayerPages] = Field(
        [], description="The very pages, layer by layer, once both sides' page digests came"
    )
    cells_left_out: int = Field(0, description="Runs that `cells` leaves out because there are too many")


class Comparison(Model):
    """Two looks held against each other, over the places in question."""

    look: str = Field(description="A stage, a repeated one with its number: `send`, `recheck 1`")
    against: str
    equal: int = 0
    different: int = 0
    unknown: int = Field(0, description="Places that one of the two did not read, or not closely enough")


class Evidence(Model):
    """What a verdict rests on beside the sums of `send` and `receive`."""

    unit: str = Field(description="What was classified one by one: cell, bucket, layer or region")
    units: int = Field(description="How many of them differ")
    causes: dict[str, int] = Field({}, description="How many of these have which cause")
    comparisons: list[Comparison] = Field([])
    missing: list[str] = Field([], description="What was not observed, and what cannot be told without it")


class Timing(Model):
    """Since when a component was right (late) or wrong (overwritten), in seconds by decode's own clock."""

    look: str = Field(description="The first look that shows it")
    after_receive_s: float
    after_signal_s: float | None = Field(None, description="From the engine's signal that all was done")
    before: str = Field("receive", description="The last look before it")
    before_s: float = Field(0.0, description="That look's time after `receive`")


class Donor(Model):
    """Another room whose bytes may be in these pages."""

    room: str
    how: How = Field(
        description="`digests`: its pages were found here; `held`: it held these pages, no more is known"
    )
    page_runs: list[tuple[int, int]] = Field(description="Runs `[first, count]` of this room's pages")
    layers: list[int] = Field([], description="Empty: all")
    key: str = Field("", description="Its transfer key")
    held_from: float | None = Field(None, description="By the decode worker's clock")
    held_until: float | None = None


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
    shape: Shape | None = Field(None, description="How the pages that differ lie in the transfer")
    chunk_edges: list[int] = Field(
        [], description="Pages at which damage ends or begins where one of prefill's chunks does"
    )
    evidence: Evidence | None = None
    timing: Timing | None = None
    donors: list[Donor] = Field([])
    boundary: list[tuple[int, int]] = Field(
        [], description="Runs of pages that are right only in part, next to stale or zeroed ones"
    )
    also_equal: list[str] = Field([], description="Looks beside `send` and `receive` that are equal too")
