"""Reading a digest's block once the device is done with it. The device's part is played by the fold."""

from __future__ import annotations

import random
from itertools import product

import pytest

from pd_tracer_hooks.digest.backend import FoldSpec, PageDigests
from pd_tracer_hooks.digest.definition import MASK
from pd_tracer_hooks.digest.fold import fold
from pd_tracer_hooks.digest.gpu.plan import CELL_SUMS, COPIES, Block, initial_result
from pd_tracer_hooks.digest.gpu.timer import Offset, TimerMap
from pd_tracer_hooks.u64s import U64s

np = pytest.importorskip("numpy")
pending = pytest.importorskip("pd_tracer_hooks.digest.gpu.pending")

LAYERS, PAGES, HEADER = (3, 9), 5, 14


class Device:
    """A driver, a scratch of one block and a clock, as far as reading goes."""

    def __init__(self, words):
        self.host, self.given, self.refreshed = words, [], 0
        self.map = TimerMap(Offset(at=1000, offset=5_000_000_000, error=2000))
        self.done = False

    def enter(self):
        pass

    def passed(self, event):
        assert event == 77
        return self.done

    def wait(self, event):
        assert event == 77
        self.done = True

    def give(self, lease):
        self.given.append(lease)

    abandon = give

    def refresh(self):
        self.refreshed += 1


class Lease:
    start, event = 0, 77


def cut(chance, value, parts):
    """Numbers that add up to ``value`` modulo 2**64."""
    numbers = [chance.randrange(MASK) for _ in range(parts - 1)]
    return [*numbers, (value - sum(numbers)) & MASK]


def launched(spec, *, outside=0, seed=1):
    """A digest whose device has finished, and what it should say."""
    chance = random.Random(seed)
    digests = PageDigests(
        LAYERS, PAGES, bytes(U64s.of(chance.randrange(MASK) for _ in range(len(LAYERS) * PAGES))), 0.0, 0.0
    )
    rows = spec is not None and spec.layer_sums
    block = Block(HEADER, len(LAYERS), PAGES, rows=rows)
    words = np.zeros(block.words, np.int64)
    words[block.result : block.digests] = initial_result(len(LAYERS), block.row_copies)
    for slot, (start, end) in {3: (1200, 2100), 4: (1100, 2500), 9: (1900, 2200)}.items():
        words[block.result + 2 * slot : block.result + 2 * slot + 2] = -start, end
    words[block.outside] = outside
    words[block.digests :] = np.frombuffer(digests.data, np.int64)
    folded = None
    if spec is not None:
        folded = fold(
            digests,
            ordinals=spec.ordinals,
            total_pages=spec.total_pages,
            k=spec.k,
            full=spec.full,
            layer_sums=spec.layer_sums,
        )
        unsigned = words.view(np.uint64)
        sums = [*folded.sums.values()[:2], *folded.buckets.values()]
        for at, value in enumerate(sums):
            unsigned[block.sums + at : block.row_sums : CELL_SUMS] = cut(chance, value, COPIES)
        for at, value in enumerate(folded.layer_sums.values()):
            unsigned[block.row_sums + at : block.digests : 3 * len(LAYERS)] = cut(chance, value, COPIES)
    device = Device(words)
    ordinals = None if spec is None else np.array(spec.ordinals)
    digest = pending.GpuPending(device, device, device, Lease(), block, LAYERS, spec, ordinals)
    return digest, device, digests, folded


@pytest.mark.parametrize(
    ("total", "ordinals"),
    [(5, range(5)), (200, [7, 199, 0, 1, 198]), (70, range(30, 35)), (9, [8, 0, 4, 2, 6])],
)
def test_sums_are_the_folds(total, ordinals):
    for full, layer_sums, k in product((True, False), (True, False), (0, 2, 300)):
        digest, _, digests, folded = launched(FoldSpec(ordinals, total, k, full, layer_sums))
        assert (digest.result().folded, digest.result().data) == (folded, digests.data), (full, layer_sums, k)


def test_ready_then_read_once_then_given_back():
    digest, device, digests, _ = launched(None)
    assert not digest.ready()
    device.done = True
    assert digest.ready()
    assert not device.given
    first = digest.result()
    device.host[:] = 0
    assert digest.ready()
    assert digest.result() is first
    assert (first.data, first.folded, len(device.given), device.refreshed) == (digests.data, None, 1, 1)


def test_times_are_the_first_start_and_the_last_end_in_the_hosts_clock():
    found = launched(None)[0].result()
    assert found.read_started == pytest.approx(5.0000011, abs=1e-9)
    assert found.read_ended == pytest.approx(5.0000025, abs=1e-9)
    assert found.read_error == pytest.approx(2e-6)


@pytest.mark.parametrize(
    ("spec", "outside", "text"),
    [
        (None, 3, "3 cells name a page"),
        (FoldSpec(range(5), 5, 1, True), 1, "1 cells name a page"),
        (FoldSpec([0, 1, 2, 3, 3], 5, 1, True), 0, "ordinals repeat"),
    ],
)
def test_faults_are_raised_each_time_and_the_block_comes_back(spec, outside, text):
    if text == "ordinals repeat":
        digest, device, *_ = launched(FoldSpec(range(5), 5, 1, True))
        digest._ordinals = np.array(spec.ordinals)
    else:
        digest, device, *_ = launched(spec, outside=outside)
    for _ in range(2):
        with pytest.raises(ValueError, match=text):
            digest.result()
    assert len(device.given) == 1


def test_dropped_unread_it_is_abandoned_and_read_it_is_not():
    digest, device, *_ = launched(None)
    del digest
    assert len(device.given) == 1
    digest, device, *_ = launched(None)
    digest.result()
    del digest
    assert len(device.given) == 1
