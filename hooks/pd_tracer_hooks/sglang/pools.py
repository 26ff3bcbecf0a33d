"""From the engine's pools and its transfer arguments to the components that are traced.

The transfer's own list of buffers (``kv_args``) decides what is moved; the pools say what each buffer
is. A buffer that a pool owns and the list lacks is *held and not moved*, which is a finding by itself. A
buffer in the list that no known pool owns is traced as opaque pages, and reported by name.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from pd_tracer_hooks.digest.backend import Pool
from pd_tracer_hooks.layout import PageLayout
from pd_tracer_hooks.sglang.buffers import Buffer, enumerate_buffers
from pd_tracer_hooks.sglang.page_layouts import dtype_of

#: State whose index list does not name items, so that its pages cannot be told.
UNADDRESSED = frozenset({"dsa_tail"})
#: Index of the main list among a component's sources; state lists count from 0.
MAIN = -1


@dataclass(frozen=True)
class Component:
    """What is digested as one: a pool of equal buffers, and the page list that addresses them.

    ``source`` is :data:`MAIN` for the transfer's main page list, else the place of the state list.
    ``tokens_per_row`` is how many tokens one row stands for, None where rows are no tokens.
    """

    pool: Pool
    source: int
    tokens_per_row: int | None
    moved: bool = True

    @property
    def name(self) -> str:
        """The component's name."""
        return self.pool.component


@dataclass(frozen=True)
class Inventory:
    """All that a worker's pools hold and its transfer moves."""

    components: tuple[Component, ...]
    page_size: int
    #: What is not covered, and why: for the collector's view of the worker.
    notes: dict[str, str] = field(default_factory=dict)

    @property
    def moved(self) -> tuple[Component, ...]:
        """The components that the transfer moves."""
        return tuple(component for component in self.components if component.moved)


def take_inventory(
    kv_args: Any, pool: Any, draft: Any = None, others: Sequence[Any] = (), heads: tuple[int, int] = (0, 0)
) -> Inventory:
    """Describe ``pool`` and ``draft`` by what ``kv_args`` moves of them.

    ``others`` are further objects of the engine in which a buffer of unknown kind may be found.
    ``heads`` are the KV heads that this rank holds and all that there are, where heads are divided.
    """
    notes: dict[str, str] = {}
    known = _by_address(_known_buffers(pool, draft, notes))
    entries = list(_entries(kv_args))
    parts: dict[tuple[str, int], list[Buffer]] = {}
    seen: set[int] = set()
    for entry in entries:
        if entry.item_len <= 0:
            continue
        buffer = known.get(entry.address)
        seen.add(entry.address)
        if buffer is None or buffer.layout.page_bytes != entry.item_len:
            buffer = _opaque(entry, buffer, (pool, draft, *others))
        if entry.state in UNADDRESSED:
            notes[entry.state] = "not covered: its index list does not name whole items"
        elif buffer is None:
            notes[entry.label] = f"not covered: the buffer at {entry.address:#x} was not found in any pool"
        else:
            parts.setdefault((_name(buffer, entry), entry.source), []).append(buffer)
    components = [component for group in parts.items() for component in _components(*group, heads)]
    components.extend(_held(known, seen))
    if getattr(kv_args, "aux_data_ptrs", None):
        notes["aux"] = "not covered: the metadata row (first token, hidden states)"
    return Inventory(tuple(components), int(kv_args.page_size), notes)


@dataclass(frozen=True)
class _Entry:
    address: int
    item_len: int
    source: int
    place: int
    state: str = ""

    @property
    def label(self) -> str:
        return f"{self.state or 'kv'}[{self.place}]"


def _entries(kv_args: Any) -> Iterator[_Entry]:
    for place, (address, size) in enumerate(zip(kv_args.kv_data_ptrs, kv_args.kv_item_lens)):  # noqa: B905
        yield _Entry(int(address), int(size), MAIN, place)
    for source, (state, addresses, sizes) in enumerate(_states(kv_args)):
        for place, (address, size) in enumerate(zip(addresses, sizes)):  # noqa: B905
            yield _Entry(int(address), int(size), source, place, state)


def _states(kv_args: Any) -> Iterator[tuple[str, Sequence[int], Sequence[int]]]:
    types = getattr(kv_args, "state_types", None)
    if types is None:
        # To 0.5.11 there is one state of one type, and its lists are flat.
        kind = str(getattr(kv_args, "state_type", "none"))
        if kind != "none":
            yield kind, kv_args.state_data_ptrs, kv_args.state_item_lens
        return
    for kind, addresses, sizes in zip(types, kv_args.state_data_ptrs, kv_args.state_item_lens):  # noqa: B905
        yield str(getattr(kind, "value", kind)), addresses, sizes


def _known_buffers(pool: Any, draft: Any, notes: dict[str, str]) -> Iterator[Buffer]:
    for owner, prefix in ((pool, ""), (draft, "draft_")):
        buffers = enumerate_buffers(owner, prefix)
        if buffers is None:
            notes[f"{prefix}pool"] = f"{type(owner).__name__} is not known: traced as opaque pages"
        yield from buffers or ()


def _by_address(buffers: Iterable[Buffer]) -> dict[int, Buffer]:
    return {int(buffer.tensor.data_ptr()): buffer for buffer in buffers}


def _name(buffer: Buffer, entry: _Entry) -> str:
    return buffer.component or f"{entry.state or 'kv'}_opaque_{entry.item_len}"


def _opaque(entry: _Entry, known: Buffer | None, owners: Sequence[Any]) -> Buffer | None:
    tensor = known.tensor if known is not None else None
    if tensor is None:
        tensor = next(
            (found for found in _tensors(owners) if _inside(found, entry.address, entry.item_len)), None
        )
    if tensor is None:
        return None
    offset = entry.address - int(tensor.data_ptr())
    items = _flat_bytes(tensor)[offset:]
    # Only whole items: what follows the last one belongs to something else.
    items = items[: items.shape[0] // entry.item_len * entry.item_len]
    layer = known.layer if known is not None else entry.place
    component = ""
    if known is not None:
        component = known.component if known.layout.kind == "opaque" else f"{known.component}_opaque"
    return Buffer(component, layer, items, PageLayout.opaque(entry.item_len, dtype_of(tensor)), 0)


def _flat_bytes(tensor: Any) -> Any:
    import torch  # noqa: PLC0415 - the engine's own, and only where a pool is at hand

    return tensor.view(torch.uint8).reshape(-1)


def _inside(tensor: Any, address: int, size: int) -> bool:
    start = int(tensor.data_ptr())
    return start > 0 and start <= address and address + size <= start + int(tensor.nbytes)


def _tensors(owners: Sequence[Any], depth: int = 6) -> Iterator[Any]:
    """Contiguous tensors reachable from ``owners`` through attributes and lists, breadth first."""
    level: list[Any] = list(owners)
    seen: set[int] = set()
    for _ in range(depth):
        following: list[Any] = []
        for item in level:
            if item is None or id(item) in seen or isinstance(item, str | bytes | int | float | type):
                continue
            seen.add(id(item))
            if hasattr(item, "data_ptr") and hasattr(item, "element_size"):
                if item.is_contiguous():
                    yield item
            elif isinstance(item, list | tuple):
                following.extend(item[:1024])
            elif isinstance(item, dict):
                following.extend(list(item.values())[:1024])
            elif type(item).__module__.startswith("sglang."):
                following.extend(getattr(item, "__dict__", {}).values())
        level = following


def _components(key: tuple[str, int], buffers: list[Buffer], heads: tuple[int, int]) -> Iterator[Component]:
    """One component for each run of equal layouts; the same layer twice begins another."""
    name, source = key
    groups: list[tuple[PageLayout, int, dict[int, Any]]] = []
    for buffer in buffers:
        for layout, per_row, layers in groups:
            if layout == buffer.layout and per_row == buffer.tokens_per_row and buffer.layer not in layers:
                layers[buffer.layer] = buffer.tensor
                break
        else:
            groups.append((buffer.layout, buffer.tokens_per_row, {buffer.layer: buffer.tensor}))
    for number, (layout, per_row, layers) in enumerate(groups):
        label = name if number == 0 else f"{name}_{number + 1}"
        yield Component(Pool(label, _sliced(layout, label, heads), layers), source, per_row or None)


def _sliced(layout: PageLayout, name: str, heads: tuple[int, int]) -> PageLayout:
    """Bind the share of heads that this rank holds into the layout, so that unequal TP is incomparable."""
    held, total = heads
    if name.rsplit("_", maxsplit=1)[-1] not in {"k", "v"} or not held or held == total:
        return layout
    kind = f"{layout.kind} heads {held}/{total}"
    return PageLayout(layout.page_bytes, layout.rows, layout.segments, layout.dtype, kind)


def _held(known: dict[int, Buffer], seen: set[int]) -> Iterator[Component]:
    idle: dict[str, list[Buffer]] = {}
    for address, buffer in known.items():
        if address not in seen:
            idle.setdefault(buffer.component, []).append(buffer)
    for name, buffers in idle.items():
        layers = {buffer.layer: buffer.tensor for buffer in buffers}
        yield Component(Pool(name, buffers[0].layout, layers), MAIN, buffers[0].tokens_per_row, moved=False)
