"""From a look at a room to an observation: which pages are read, and how their digests are summed.

Pure but for the launch of the digest. What this does not do: decide when to look, or keep pages from
being freed; see :mod:`pd_tracer_hooks.ownership` for how it is known that they were not.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from pd_tracer_hooks.digest.backend import (
    DigestBackend,
    DigestRequest,
    FoldSpec,
    PageDigests,
    PendingDigest,
    Pool,
)
from pd_tracer_hooks.digest.fold import fold, needed_ordinals
from pd_tracer_hooks.layout import signature, signature_fields
from pd_tracer_hooks.runs import runs_of
from pd_tracer_hooks.selection import choose_layers
from pd_tracer_hooks.texts import fit
from pd_tracer_hooks.wire import ComponentDigest, Coverage, Observation, Owned, Stage

#: Runs of physical pages that an observation keeps as evidence, at most.
MAX_PHYSICAL_RUNS = 512

#: Stages that must not wait behind what the engine has queued on its stream: the bytes would be read long
#: after a race is over.
AT_ONCE = frozenset({Stage.receive, Stage.recheck})


@dataclass(frozen=True, kw_only=True)
class ComponentLook:
    """What to digest of one component.

    ``pages``: physical page ids in transfer order, of which the first has ordinal ``first`` in the transfer.
    ``total_pages``: P, or None while this side does not know it: page digests are kept until
    ``Agent.total`` says it. ``last_rows``: valid rows of the last of ``pages`` (None: it is full).
    ``last``: whether that is the transfer's last page. ``start``: logical page in the sequence at which
    the transfer starts. ``layers``: global ids (None: by the settings' policy).
    """

    pool: Pool
    pages: Sequence[int]
    first: int = 0
    total_pages: int | None
    last_rows: int | None = None
    last: bool = True
    start: int = 0
    layers: Sequence[int] | None = None


@dataclass(frozen=True, kw_only=True)
class Look:
    """One look at a room. ``owned`` may be a function; it is asked when the digests have been read."""

    room: str
    keys: Sequence[str] = ()
    stage: Stage
    look: int = 0
    request: str = ""
    trace: str = ""
    peer: str = ""
    tokens: int | None = None
    signalled_at: float | None = None
    owned: Owned | Callable[[], Owned] = Owned.unknown
    components: Sequence[ComponentLook]


@dataclass(frozen=True, kw_only=True)
class Plan:
    """How a worker looks: what the settings come to on its backend, and what it knows of the model."""

    full: bool
    k: int
    layer_choice: str
    layer_sums: bool
    #: Order-free sums beside the page digests, where the backend makes them: for the journal alone.
    order_free: bool = False
    model_layers: int = 0
    #: Layers that own a buffer of a component in the whole model, where this worker knows them.
    owning_layers: Mapping[str, Sequence[int]]

    def signature_fields(self, pool: Pool) -> dict[str, str]:
        """What must agree for digests of ``pool`` to be comparable, by name."""
        return signature_fields(
            component=pool.component,
            layout=pool.layout,
            k=self.k,
            layer_choice=self.layer_choice,
            head_slice=pool.head_slice,
        )

    def layers(self, look: ComponentLook, room: str) -> tuple[int, ...]:
        """Layers of this worker to digest, ascending; maybe none."""
        held = look.pool.buffers
        if look.layers is not None:
            return tuple(layer for layer in look.layers if layer in held)
        if self.layer_choice == "all":
            return tuple(sorted(held))
        owning = self.owning_layers.get(look.pool.component)
        model_layers = self.model_layers or (max(held, default=-1) + 1)
        chosen = choose_layers(self.layer_choice, owning or range(model_layers), model_layers, room)
        return tuple(layer for layer in chosen if layer in held)


@dataclass(frozen=True)
class Launched:
    """A component's digest under way. ``ordinals[i]`` is the place of the i-th page in the transfer."""

    look: ComponentLook
    ordinals: Sequence[int]
    physical: Sequence[int]
    pending: PendingDigest


@dataclass(frozen=True)
class Read:
    """A component's digest that has been read."""

    look: ComponentLook
    ordinals: Sequence[int]
    physical: Sequence[int]
    digests: PageDigests


def launch(backend: DigestBackend, plan: Plan, look: Look) -> list[Launched]:
    """Begin to digest what ``look`` names. Components of which nothing is to be read are left out."""
    launched = []
    for component in look.components:
        layers = plan.layers(component, look.room)
        ordinals, pages = _pages_to_read(component, plan)
        if not layers or not (len(pages) or component.total_pages == 0):
            continue
        reads_last = bool(ordinals) and ordinals[-1] == component.first + len(component.pages) - 1
        request = DigestRequest(
            component.pool,
            layers,
            pages,
            component.last_rows if reads_last else None,
            at_once=look.stage in AT_ONCE,
            order_free=plan.order_free,
            fold=_fold_spec(component, plan, ordinals),
        )
        launched.append(Launched(component, ordinals, pages, backend.launch(request)))
    return launched


def _pages_to_read(component: ComponentLook, plan: Plan) -> tuple[Sequence[int], Sequence[int]]:
    """(ordinals, physical pages). All of them while P is unknown: the tail cannot be told yet."""
    first, pages = component.first, component.pages
    end = first + len(pages)
    if plan.full or component.total_pages is None:
        # The caller may change its list; copying a numpy array as one costs it less than a tuple.
        kept = pages.copy() if hasattr(pages, "tolist") and hasattr(pages, "copy") else tuple(pages)
        return range(first, end), kept
    ordinals = [
        ordinal
        for start, count in needed_ordinals(component.total_pages, plan.k, full=False)
        for ordinal in range(max(start, first), min(start + count, end))
    ]
    return ordinals, tuple(int(pages[ordinal - first]) for ordinal in ordinals)


def _fold_spec(component: ComponentLook, plan: Plan, ordinals: Sequence[int]) -> FoldSpec | None:
    if component.total_pages is None:
        return None
    return FoldSpec(ordinals, component.total_pages, plan.k, plan.full, plan.layer_sums)


def observation(
    look: Look, plan: Plan, reads: Sequence[Read], *, totals: Mapping[str, int], seq: int, owned: Owned
) -> Observation:
    """Sum what was read. ``totals``: P by component, for those whose look did not know it.

    Raises ``KeyError`` if a total is still missing, ``ValueError`` for pages outside the transfer.
    """
    return Observation(
        room=look.room,
        keys=list(dict.fromkeys(look.keys)),
        stage=look.stage,
        look=look.look,
        seq=seq,
        at=max(read.digests.read_ended for read in reads),
        signalled_at=look.signalled_at,
        request=fit(look.request),
        trace=fit(look.trace),
        peer=fit(look.peer),
        tokens=look.tokens,
        components=[_component(read, plan, totals, owned) for read in reads],
    )


def _component(read: Read, plan: Plan, totals: Mapping[str, int], owned: Owned) -> ComponentDigest:
    look, pool = read.look, read.look.pool
    physical = read.physical.tolist() if hasattr(read.physical, "tolist") else read.physical
    total = look.total_pages if look.total_pages is not None else totals[pool.component]
    folded = read.digests.folded or fold(
        read.digests,
        ordinals=read.ordinals,
        total_pages=total,
        k=plan.k,
        full=plan.full,
        layer_sums=plan.layer_sums,
    )
    return ComponentDigest(
        name=pool.component,
        signature=signature(plan.signature_fields(pool)),
        pages=total,
        k=plan.k,
        coverage=Coverage.full if plan.full else Coverage.ends,
        layers=list(read.digests.layers),
        runs=runs_of(read.ordinals),
        last=look.last,
        sums=folded.sums,
        cells=list(folded.cells),
        buckets=folded.buckets,
        layer_sums=folded.layer_sums,
        start=look.start,
        last_rows=look.last_rows if look.last else None,
        owned=owned,
        physical=runs_of(physical)[:MAX_PHYSICAL_RUNS],
    )
