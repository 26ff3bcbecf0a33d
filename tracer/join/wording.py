"""How pages, layers and workers are written in the sentences of a verdict."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from tracer.join.intervals import Spans, merged

_SHOWN = 6


def join_words(words: Sequence[str]) -> str:
    """``a``, ``a and b``, ``a, b and c``."""
    if len(words) < 2:
        return "".join(words)
    return f"{', '.join(words[:-1])} and {words[-1]}"


def ranges(spans: Spans) -> str:
    """Spans as ``0-3, 7``, shortened when there are many."""
    shown = ", ".join(str(low) if high - low == 1 else f"{low}-{high - 1}" for low, high in spans[:_SHOWN])
    return f"{shown} and {len(spans) - _SHOWN} more runs" if len(spans) > _SHOWN else shown


def _plural(noun: str, spans: Spans) -> str:
    return noun if len(spans) == 1 and spans[0][1] - spans[0][0] == 1 else f"{noun}s"


def pages_text(spans: Spans) -> str:
    """``page 3`` or ``pages 0-3, 7``."""
    return f"{_plural('page', spans)} {ranges(spans)}"


def layers_text(layers: Iterable[int]) -> str:
    """``layer 3`` or ``layers 0-3, 7``."""
    spans = merged((layer, layer + 1) for layer in layers)
    return f"{_plural('layer', spans)} {ranges(spans)}" if spans else "no layer"


def workers_text(side: str, workers: Sequence[str]) -> str:
    """``prefill worker p0``, ``decode workers d0 and d1``, or only the side when it never spoke."""
    if not workers:
        return side
    named = list(workers[:_SHOWN])
    if len(workers) > _SHOWN:
        named.append(f"{len(workers) - _SHOWN} more")
    return f"{side} {'worker' if len(workers) == 1 else 'workers'} {join_words(named)}"


def seconds_text(seconds: float) -> str:
    """``180 s``, ``0.5 s``."""
    return f"{seconds:g} s"


def sentences(several: Iterable[str]) -> str:
    """Sentences one after the other, the first few of many."""
    said = list(several)
    if len(said) > _SHOWN:
        said = [*said[:_SHOWN], f"and {len(said) - _SHOWN} more"]
    return "; ".join(said)


def time_text(seconds: float) -> str:
    """A measured time: ``1.8 ms``, ``2.35 s``."""
    return f"{seconds:.3g} s" if abs(seconds) >= 1 else f"{seconds * 1000:.3g} ms"
