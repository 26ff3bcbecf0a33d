"""What each delivery does to bytes that NIXL moves between two agents."""

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec
import pytest

from tracer.demo.copies import Copies, Pages, page_copies
from tracer.demo.delivery import Delivery, Route
from tracer.demo.faults import Aim
from tracer.demo.handshake import Part, part_decoder
from tracer.demo.link import NixlLink
from tracer.demo.plan import Fault
from tracer.demo.sabotage import (
    BitFlip,
    PagesReordered,
    SourceChanged,
    Staging,
    TailUnwritten,
    TailZeroed,
    Withheld,
)
from tracer.demo.untimely import Early, InFlight, Overwritten, OverwrittenLater

torch = pytest.importorskip("torch", reason="the demo's buffers are torch tensors: pip install torch==2.13.0")
pytest.importorskip("nixl_cu12", reason="the demo moves bytes with NIXL: pip install nixl-cu12==1.5.1")

PAGE, PAGES, LAYERS = 8192, 4, 2


@dataclass
class Wire:
    """A sender with full pages, a receiver with zeros, and what the receiver heard."""

    near: NixlLink
    far: NixlLink
    peer: str
    source: Any
    target: Any
    staging: Staging
    heard: list[Part] = field(default_factory=list)

    def clear(self) -> None:
        self.settle()
        self.target.zero_()
        self.heard.clear()

    def settle(self, seconds: float = 5.0) -> None:
        """Let everything that is posted arrive, with its signals."""
        deadline = time.monotonic() + seconds
        quiet = 0
        while quiet < 5:
            self.near.poll()
            signals = self.far.signals()
            self.heard += [part_decoder.decode(signal) for signal in signals]
            quiet = 0 if signals or self.near.outstanding else quiet + 1
            assert time.monotonic() < deadline
            time.sleep(0.0005)

    def copies(self, component: str, first: int, count: int) -> Copies:
        chosen = range(first, first + count)
        source, target = self.side(self.source, chosen), self.side(self.target, chosen)
        return page_copies(component, PAGE, source, target, first)

    @staticmethod
    def side(buffer: Any, pages: range) -> Pages:
        return Pages({layer: buffer[layer].data_ptr() for layer in range(LAYERS)}, pages)

    def arrived(self) -> list[list[float]]:
        """Per layer and page the share of bytes that are as at the sender."""
        same = (self.source == self.target).view(LAYERS, PAGES, PAGE)
        return [[round(float(page.float().mean()), 4) for page in layer] for layer in same]


@pytest.fixture(scope="module")
def shared() -> Wire:
    near, far = NixlLink("near"), NixlLink("far")
    source = torch.randint(1, 256, (LAYERS, PAGES, PAGE), dtype=torch.uint8)
    target = torch.zeros_like(source)
    staging = Staging(8, PAGE)
    near.register([source, staging.buffer])
    far.register([target])
    peer = near.connect(far.metadata())
    far.connect(near.metadata())
    return Wire(near, far, peer, source, target, staging)


@pytest.fixture
def wire(shared: Wire) -> Iterator[Wire]:
    shared.clear()
    yield shared
    shared.settle()


def route(wire: Wire, parts: int = 1) -> Route:
    return Route(wire.near, wire.peer, 7, parts)


def hit(fault: Fault, layers: tuple[int, ...], pages: tuple[int, ...], offset: int = 0, bit: int = 0) -> Aim:
    return Aim(fault=fault, component="kv", layers=layers, pages=pages, offset=offset, bit=bit)


def heard_parts(wire: Wire) -> set[int]:
    return {part.part for part in wire.heard}


def heard(wire: Wire) -> set[int]:
    assert {part.index for part in wire.heard} == {7}
    return {part.part for part in wire.heard}


def deliver(wire: Wire, delivery: Delivery) -> None:
    """Two chunks of two pages each."""
    delivery.post(0, wire.copies("kv", 0, 2))
    delivery.post(1, wire.copies("kv", 2, 2))
    wire.settle()
    delivery.advance()
    wire.settle()


WHOLE = [1.0] * PAGES


def test_an_honest_delivery(wire: Wire) -> None:
    delivery = Delivery(route(wire, parts=2))
    before = wire.near.bytes_moved
    deliver(wire, delivery)
    assert wire.arrived() == [WHOLE, WHOLE]
    assert heard(wire) == {0, 1}
    assert delivery.idle
    assert wire.near.bytes_moved - before == LAYERS * PAGES * PAGE


def test_a_bit_flips_on_the_way_alone(wire: Wire) -> None:
    source = wire.source.clone()
    aim = hit(Fault.bit_flip, (1,), (2,), offset=100, bit=3)
    delivery = BitFlip(
        route(wire, parts=2), aim, lambda name, layer, ordinal: wire.source[layer, ordinal], wire.staging
    )
    deliver(wire, delivery)
    assert bool((wire.source == source).all())
    difference = (wire.source ^ wire.target).nonzero().tolist()
    assert difference == [[1, 2, 100]]
    assert int(wire.source[1, 2, 100] ^ wire.target[1, 2, 100]) == 1 << 3
    assert delivery.happened


def test_a_tail_stays_unwritten(wire: Wire) -> None:
    delivery = TailUnwritten(route(wire, parts=2), hit(Fault.tail_unwritten, (1,), (2, 3), offset=4096))
    deliver(wire, delivery)
    assert wire.arrived() == [WHOLE, [1.0, 1.0, 0.5, 0.0]]
    assert heard(wire) == {0, 1}
    assert delivery.happened


def test_a_tail_may_be_all_of_a_part(wire: Wire) -> None:
    delivery = TailUnwritten(route(wire, parts=2), hit(Fault.tail_unwritten, (0, 1), (2, 3)))
    deliver(wire, delivery)
    assert wire.arrived() == [[1.0, 1.0, 0.0, 0.0]] * 2
    assert heard(wire) == {0, 1}


def test_a_withheld_component_is_signalled(wire: Wire) -> None:
    delivery = Withheld(route(wire), hit(Fault.component_withheld, (0, 1), (0, 1, 2, 3)))
    delivery.post(0, wire.copies("kv", 0, PAGES))
    wire.settle()
    assert wire.arrived() == [[0.0] * PAGES] * 2
    assert heard(wire) == {0}
    assert delivery.happened


@pytest.mark.parametrize(("after", "last"), [("receive", False), ("recheck 1", True)])
def test_an_early_part_is_written_behind_a_look(wire: Wire, after: str, last: bool) -> None:
    aim = msgspec.structs.replace(hit(Fault.early_completion, (0, 1), (2, 3)), after=after)
    delivery = Early(route(wire, parts=2), aim)
    deliver(wire, delivery)
    assert wire.arrived() == [[1.0, 1.0, 0.0, 0.0]] * 2
    assert heard(wire) == {0, 1}
    assert not delivery.idle
    assert not delivery.happened
    delivery.looked("admit", last=False)
    assert not delivery.happened
    delivery.looked("receive", last=last)
    wire.settle()
    assert wire.arrived() == [WHOLE, WHOLE]
    assert delivery.idle
    assert delivery.happened
    assert len(wire.heard) == 2


def test_another_rooms_bytes_land_before_the_last_signal(wire: Wire) -> None:
    def foreign(component: str, ordinals: Sequence[int]) -> Copies:
        assert ordinals == (0, 1)
        return page_copies(
            component, PAGE, wire.side(wire.source, range(2, 4)), wire.side(wire.target, range(2)), 0
        )

    delivery = Overwritten(route(wire, parts=2), hit(Fault.other_rooms_pages, (0, 1), (0, 1)), foreign)
    delivery.post(0, wire.copies("kv", 0, 2))
    delivery.post(1, wire.copies("kv", 2, 2))
    wire.settle()
    assert wire.arrived() == [WHOLE, WHOLE]
    assert heard(wire) == {0}
    assert not delivery.idle
    delivery.advance()
    wire.settle()
    assert heard(wire) == {0, 1}
    assert bool((wire.target[:, 0:2] == wire.source[:, 2:4]).all())
    assert bool((wire.target[:, 2:4] == wire.source[:, 2:4]).all())
    assert delivery.idle
    assert delivery.happened


def test_a_tail_of_zeros(wire: Wire) -> None:
    wire.target.fill_(255)
    delivery = TailZeroed(
        route(wire, parts=2), hit(Fault.tail_zeroed, (1,), (2, 3), offset=4096), wire.staging
    )
    deliver(wire, delivery)
    assert wire.arrived() == [WHOLE, [1.0, 1.0, 0.5, 0.0]]
    assert not wire.target.view(LAYERS, PAGES, PAGE)[1, 2, 4096:].any()
    assert not wire.target.view(LAYERS, PAGES, PAGE)[1, 3].any()
    assert delivery.happened


def test_pages_of_two_chunks_change_places(wire: Wire) -> None:
    delivery = PagesReordered(route(wire, parts=2), hit(Fault.pages_reordered, (0, 1), (1, 2)))
    delivery.post(0, wire.copies("kv", 0, 2))
    wire.settle()
    assert not delivery.idle
    assert heard_parts(wire) == set()
    delivery.post(1, wire.copies("kv", 2, 2))
    wire.settle()
    assert heard(wire) == {0, 1}
    assert bool((wire.target == wire.source[:, [0, 2, 1, 3]]).all())
    assert delivery.idle


def test_a_source_that_changes_under_the_transfer(wire: Wire) -> None:
    before = wire.source.clone()
    delivery = SourceChanged(
        route(wire, parts=2),
        hit(Fault.source_changed, (1,), (2,)),
        lambda name, layer, ordinal: wire.source[layer, ordinal],
    )
    deliver(wire, delivery)
    assert bool((wire.source == wire.target).all())
    changed = (before != wire.source).view(LAYERS, PAGES, PAGE).any(dim=2)
    wire.source.copy_(before)
    assert changed.tolist() == [[False] * 4, [False, False, True, False]]


def test_bytes_of_another_room_come_behind_a_look(wire: Wire) -> None:
    def foreign(component: str, ordinals: Sequence[int]) -> Copies:
        return page_copies(
            component, PAGE, wire.side(wire.source, range(3, 4)), wire.side(wire.target, range(1)), 0
        )

    aim = msgspec.structs.replace(hit(Fault.overwritten, (0, 1), (0,)), after="receive")
    delivery = OverwrittenLater(route(wire, parts=2), aim, foreign)
    deliver(wire, delivery)
    assert wire.arrived() == [WHOLE, WHOLE]
    assert not delivery.idle
    for _ in range(2):
        delivery.looked("receive", last=False)
    wire.settle()
    assert bool((wire.target[:, 0] == wire.source[:, 3]).all())
    assert bool((wire.target[:, 1:] == wire.source[:, 1:]).all())
    assert delivery.idle


def test_a_write_that_hangs(wire: Wire) -> None:
    delivery = InFlight(route(wire), hit(Fault.aborted_in_flight, (), ()))
    copies = wire.copies("kv", 0, 2)
    delivery.post(0, copies)
    wire.settle()
    assert wire.arrived() == [[0.0] * PAGES] * 2
    assert not delivery.idle
    assert delivery.let_go() is copies
    delivery.landed()
    assert delivery.idle


def test_staging_ends(wire: Wire) -> None:
    staging = Staging(1, PAGE)
    staging.take()
    with pytest.raises(RuntimeError, match="all 1 staging slots"):
        staging.take()
