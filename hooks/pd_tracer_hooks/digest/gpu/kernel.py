# mypy: disable-error-code="no-untyped-def, misc, untyped-decorator, no-untyped-call, type-arg"
# ruff: noqa: N803, N806, PLR0917
"""The Triton kernel: page digests of a list of pages of many layers in one launch, and their sums.

Programs are laid out as (page, layer); each digests whole pages, so nothing has to be combined but the
sums, which are added atomically. Addition modulo 2**64 has no order, so the result is exact on any grid.
See :mod:`.plan` for the table and the result, and :mod:`pd_tracer_hooks.digest.definition` for what is
computed. The data is read once, past the L1 cache: another device may have written it.
"""

from __future__ import annotations

import triton
import triton.language as tl

from pd_tracer_hooks.digest import definition
from pd_tracer_hooks.digest.gpu import plan

_G = tl.constexpr(definition.G)
_KJ = tl.constexpr(definition.KJ)
_KL = tl.constexpr(definition.KL)
_M1 = tl.constexpr(0xBF58476D1CE4E5B9)
_M2 = tl.constexpr(0x94D049BB133111EB)
_ONES = tl.constexpr(definition.MASK)
_COPIES = tl.constexpr(plan.COPIES)
_CELL_SUMS = tl.constexpr(plan.CELL_SUMS)
_SLOTS = tl.constexpr(plan.TIME_SLOTS)
_FIXED = tl.constexpr(plan.HEADER_FIXED)
_SPAN = tl.constexpr(plan.SPAN_WORDS)


@triton.jit
def _fin64(x):
    x ^= x >> 30
    x *= _M1
    x ^= x >> 27
    x *= _M2
    return x ^ (x >> 31)


@triton.jit
def _times(number, factor: tl.constexpr):
    """(number + 1) * factor as an unsigned 64-bit word."""
    return (number.to(tl.uint64) + 1) * factor


@triton.jit
def _mixed(word, number, MIX: tl.constexpr):
    """What word ``number`` of a page adds to its sum. Without MIX the word itself: the speed limit."""
    if MIX:
        return _fin64(word + _times(number, _G))
    else:
        return word


@triton.jit
def _words(address, index, size, ALIGN: tl.constexpr, MASKED: tl.constexpr):
    """Words ``index`` of the ``size`` bytes at ``address``, which is a multiple of ALIGN.

    Rows that start on less than 8 bytes are read in pieces. If MASKED, bytes from ``size`` on are zero.
    """
    if ALIGN >= 8:
        start = tl.multiple_of(address.to(tl.pointer_type(tl.uint64)), ALIGN)
        if MASKED:
            word = tl.load(start + index, mask=index * 8 < size, other=0, cache_modifier=".cg")
        else:
            word = tl.load(start + index, cache_modifier=".cg")
    else:
        if ALIGN == 4:
            pieces = address.to(tl.pointer_type(tl.uint32))
        elif ALIGN == 2:
            pieces = address.to(tl.pointer_type(tl.uint16))
        else:
            pieces = address.to(tl.pointer_type(tl.uint8))
        word = index.to(tl.uint64) * 0
        for part in tl.static_range(8 // ALIGN):
            here = index * (8 // ALIGN) + part
            piece = tl.load(pieces + here, mask=here * ALIGN < size, other=0)
            word |= piece.to(tl.uint64) << (8 * ALIGN * part)
    if MASKED:
        over = tl.minimum(tl.maximum(index * 8 + 8 - size, 0), 7)
        word &= tl.full([1], _ONES, tl.uint64) >> (over * 8).to(tl.uint64)
    return word


@triton.jit
def _listed_spans(
    start, spans, SEGMENTS: tl.constexpr, ALIGN: tl.constexpr, BLOCK: tl.constexpr, MIX: tl.constexpr
):
    """Sum of a page's mixed words and its length in bytes, by the spans that the table lists."""
    lane = tl.arange(0, BLOCK)
    sums = tl.zeros([BLOCK], tl.uint64)
    length = tl.full([], 0, tl.int32)
    for segment in range(SEGMENTS):
        offset = tl.load(spans + segment * _SPAN)
        size = tl.load(spans + segment * _SPAN + 1).to(tl.int32)
        first = tl.load(spans + segment * _SPAN + 2).to(tl.int32)
        for at in range(0, (size + 7) // 8, BLOCK):
            index = at + lane
            word = _words(tl.multiple_of(start + offset, ALIGN), index, size, ALIGN, True)
            sums += tl.where(index * 8 < size, _mixed(word, first + index, MIX), 0)
        length += size
    return tl.sum(sums), length


@triton.jit
def _single_span(start, BYTES: tl.constexpr, ALIGN: tl.constexpr, BLOCK: tl.constexpr, MIX: tl.constexpr):
    """Sum of the mixed words of ``BYTES`` bytes at ``start``."""
    lane = tl.arange(0, BLOCK)
    sums = tl.zeros([BLOCK], tl.uint64)
    whole: tl.constexpr = BYTES // 8 // BLOCK * BLOCK
    for at in range(0, whole, BLOCK):
        sums += _mixed(_words(start, at + lane, BYTES, ALIGN, False), at + lane, MIX)
    total = tl.sum(sums)
    rest: tl.constexpr = (BYTES + 7) // 8 - whole
    if rest > 0:
        index = whole + tl.arange(0, triton.next_power_of_2(rest))
        word = _words(start, index, BYTES, ALIGN, True)
        total += tl.sum(tl.where(index * 8 < BYTES, _mixed(word, index, MIX), 0))
    return total


@triton.jit
def _timer(after):
    """The GPU's global timer in ns, read once ``after`` is known."""
    return tl.inline_asm_elementwise(
        "mov.u64 $0, %globaltimer;", "=l,l", [after], dtype=tl.int64, is_pure=False, pack=1
    )


@triton.jit
def _add_sums(result, digest, ordinal, layers, layer, layer_id, total_pages, ends, buckets, row_copies):
    """Add a cell to the sums of the regions that it lies in: none if it lies outside the transfer."""
    row_input = digest + _times(ordinal, _KJ)
    row = _fin64(row_input)
    cell = _fin64(row_input + _times(layer_id, _KL))
    inside = (ordinal >= 0) & (ordinal < total_pages)
    in_head = inside & (ordinal < ends)
    in_tail = inside & (ordinal + ends >= total_pages)
    in_body = inside & (buckets > 0)
    bucket = ((ordinal + 1) * buckets - 1) // total_pages
    # Cells that are added at about the same time go to different copies.
    sums = 2 * _SLOTS + 1 + (layer % _COPIES) * _CELL_SUMS
    rows = 2 * _SLOTS + 1 + _COPIES * _CELL_SUMS + 3 * ((ordinal % _COPIES) * layers + layer)
    # One atomic instruction for all six: lane by lane head, tail, bucket of the cells; head, tail, body of
    # the rows.
    lane = tl.arange(0, 8)
    where = tl.where(lane == 2, sums + 2 + bucket, tl.where(lane < 2, sums + lane, rows + lane - 3))
    region = lane % 3
    wanted = tl.where(region == 0, in_head, tl.where(region == 1, in_tail, in_body))
    wanted &= lane < tl.where(row_copies > 0, 6, 3)
    value = tl.where(lane < 3, cell, row).to(tl.int64, bitcast=True)
    tl.atomic_add(result + where, value, mask=wanted, sem="relaxed")


@triton.jit(
    do_not_specialize=[
        "table", "result", "layers", "capacity", "count", "partial", "page_limit", "total_pages", "ends",
        "buckets", "row_copies",
    ]
)  # fmt: skip
def digest_pages(
    table,
    result,
    layers,
    capacity,
    count,
    partial,
    page_limit,
    total_pages,
    ends,
    buckets,
    row_copies,
    PAGE_BYTES: tl.constexpr,
    FULL_OFFSET: tl.constexpr,
    FULL_BYTES: tl.constexpr,
    SEGMENTS: tl.constexpr,
    ALIGN: tl.constexpr,
    BLOCK: tl.constexpr,
    FOLD: tl.constexpr,
    LISTED: tl.constexpr,
    TIMED: tl.constexpr,
    MIX: tl.constexpr,
):
    """Digest ``count`` pages of ``layers`` layers.

    ``capacity`` is the room for pages in table and result. LISTED: ``count`` and ``partial`` stand in the
    table instead, so that a captured graph can be replayed with other pages. FULL_BYTES = 0: a full page
    has several spans. FOLD: add the sums for a transfer of ``total_pages`` with ``ends`` pages in head and
    in tail, and ``buckets`` buckets (0: no body); row sums only with ``row_copies``.
    """
    # Pages of several spans are rare: small steps, lest their path set the kernel's number of registers.
    STEP: tl.constexpr = BLOCK if BLOCK < 256 else 256
    if TIMED:
        began = _timer(tl.program_id(0).to(tl.int64))
    if LISTED:
        count = tl.load(table).to(tl.int32)
        partial = tl.load(table + 1).to(tl.int32)
    layer = tl.program_id(1)
    listed = _FIXED + 2 * _SPAN * SEGMENTS
    base = tl.multiple_of(tl.load(table + listed + layer), ALIGN)
    layer_id = tl.load(table + listed + layers + layer)
    page_ids = table + listed + 2 * layers
    digests = result + 2 * _SLOTS + 1 + _COPIES * _CELL_SUMS + 3 * layers * row_copies
    digests += layer.to(tl.int64) * capacity
    digest = tl.full([], 0, tl.uint64)
    # Up to ``capacity``, so that page ids need not wait for a count from the table.
    for number in range(tl.program_id(0), capacity, tl.num_programs(0)):
        page = tl.load(page_ids + number)
        if number < count:
            inside = (page >= 0) & (page < page_limit)
            start = base + tl.where(inside, page, 0) * PAGE_BYTES
            cut = (partial != 0) & (number == count - 1)
            if FULL_BYTES > 0:
                if cut:
                    total, length = _listed_spans(start, table + _FIXED, SEGMENTS, ALIGN, STEP, MIX)
                else:
                    full = tl.multiple_of(start + FULL_OFFSET, ALIGN)
                    total = _single_span(full, FULL_BYTES, ALIGN, BLOCK, MIX)
                    length = tl.full([], FULL_BYTES, tl.int32)
            else:
                spans = table + _FIXED + tl.where(cut, 0, _SPAN * SEGMENTS)
                total, length = _listed_spans(start, spans, SEGMENTS, ALIGN, STEP, MIX)
            digest = _fin64(total + _times(length, _G))
            tl.store(digests + number, digest.to(tl.int64, bitcast=True))
            if FOLD:
                ordinal = tl.load(page_ids + capacity + number).to(tl.int32)
                _add_sums(
                    result,
                    digest,
                    ordinal,
                    layers,
                    layer,
                    layer_id,
                    total_pages,
                    ends,
                    buckets,
                    row_copies,
                )
                inside &= (ordinal >= 0) & (ordinal < total_pages)
            if not inside:
                tl.atomic_add(result + 2 * _SLOTS, 1, sem="relaxed")
    if TIMED:
        slot = ((tl.program_id(0) + layer) % _SLOTS) * 2 + tl.arange(0, 2)
        ended = _timer(digest.to(tl.int64, bitcast=True))
        tl.atomic_max(result + slot, tl.where(tl.arange(0, 2) == 0, -began, ended), sem="relaxed")


@triton.jit(do_not_specialize=["out"])
def read_timer(out):
    """Store the GPU's global timer."""
    tl.store(out, _timer(tl.program_id(0).to(tl.int64)))
