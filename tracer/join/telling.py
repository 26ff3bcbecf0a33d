"""How a mismatch is told: one sentence for each cause, about what was seen and no more."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from msgspec import Struct

from tracer.join.causes import stale, zeroed
from tracer.join.causes.case import Case
from tracer.join.causes.reordered import within_page
from tracer.join.intervals import Spans
from tracer.join.model import Cause, Donor, How, Shape, Timing
from tracer.join.places import Place, same
from tracer.join.wording import join_words, layers_text, pages_text, time_text

_SHAPES = {
    Shape.early_run: "a run from the first page on",
    Shape.tail_run: "a run up to the last page",
    Shape.stride: "runs at equal distances",
    Shape.whole: "all pages",
}


class Tale(Struct, frozen=True):
    """What a sentence is about: the places that have the cause, as pages and layers, and what was found."""

    case: Case
    places: Sequence[Place]
    spans: Spans
    layers: Sequence[int]
    shape: Shape | None
    chunk_edges: Sequence[int]
    boundary: Spans
    timing: Timing | None
    donors: Sequence[Donor]

    @property
    def subject(self) -> str:
        """``pages 40-63 in layer 3``."""
        layers = f" in {layers_text(self.layers)}" if self.layers else ""
        return pages_text(self.spans) + layers

    def verb(self, one: str, many: str) -> str:
        """The verb that goes with the subject."""
        single = len(self.spans) == 1 and self.spans[0][1] - self.spans[0][0] == 1
        return one if single else many


def tell(cause: Cause, tale: Tale) -> str:
    """The sentence for ``cause``, which is not ``unexplained``, with what is known of the shape."""
    return _SENTENCES[cause](tale) + shape_text(tale.shape, tale.chunk_edges)


def shape_text(shape: Shape | None, edges: Sequence[int]) -> str:
    """What the shape adds to a sentence, such as ``; a run up to the last page``."""
    if edges:
        named = f"{'page' if len(edges) == 1 else 'pages'} {join_words([str(edge) for edge in edges])}"
        run = _SHAPES.get(shape, "a run") if shape is not None else "a run"
        return f"; {run}, on the edge of prefill's chunks at {named}"
    if shape in (Shape.early_run, Shape.tail_run, Shape.stride):
        return f"; {_SHAPES[shape]}"
    return ""


def held_text(donors: Sequence[Donor]) -> str:
    """What is said of rooms that held the pages, when nothing is known of what was in them."""
    rooms = list(dict.fromkeys(donor.room for donor in donors if donor.how is How.held))
    if not rooms:
        return ""
    noun = "room" if len(rooms) == 1 else "rooms"
    return f"; {noun} {_rooms(rooms)} held these pages, and what was in them is not known"


def changed_after(what: str, spans: Spans) -> str:
    """A note: pages that differ at a look that does not count against the transfer."""
    return f"{what} in {pages_text(spans)}"


def _sent_early(tale: Tale) -> str:
    return (
        f"sent early: {tale.subject} arrived as handed to the transfer, which was before "
        f"{tale.verb('it', 'they')} had been computed: a second look at send found other bytes"
    )


def _late(tale: Tale) -> str:
    were = tale.verb("was", "were")
    if tale.timing is None:
        looks = join_words([look.name for look in tale.case.looks.later])
        return f"late: {tale.subject} {were} right later, though not all at one look ({looks})"
    timing = tale.timing
    if timing.after_signal_s is not None:
        when = f"{time_text(timing.after_signal_s)} after completion was signalled"
    else:
        when = f"{time_text(timing.after_receive_s)} after receive"
    return f"late: {tale.subject} {were} right {when} ({timing.look}), and still wrong at {timing.before}"


def _source_changed(tale: Tale) -> str:
    case = tale.case
    release = case.looks.release
    assert release is not None
    if all(same(release.values, case.received, place) is True for place in tale.places):
        return f"source changed: {tale.subject} arrived as release found them on prefill, not as send did"
    return (
        f"source changed: prefill's {tale.subject} held other bytes at release than at send, "
        "and what arrived is not what was sent"
    )


def _cross_room(tale: Tale) -> str:
    hold = tale.verb("holds", "hold")
    return f"cross room: {tale.subject} {hold} bytes of {_givers(tale.donors)}"


def _stale(tale: Tale) -> str:
    hold = tale.verb("holds", "hold")
    told = f"stale: {tale.subject} still {hold} what was there before the pages were handed out"
    ordinary = [place for place in tale.places if stale.was_there_before(tale.case, place)]
    if ordinary and all(zeroed.holds_zeros(tale.case, place) for place in ordinary):
        told += ", which is zeros: never written to a fresh pool, or zeroed"
    elif tale.donors:
        told += f", bytes of {_givers(tale.donors)}"
    return told + _boundary(tale, "neither that nor right")


def _zeroed(tale: Tale) -> str:
    hold = tale.verb("holds", "hold")
    told = f"zeroed: {tale.subject} {hold} zeros"
    if tale.case.looks.allocate is None:
        told += " (stale, if the pool was fresh)"
    return told + _boundary(tale, "neither zero nor right")


def _reordered(tale: Tale) -> str:
    hold = tale.verb("holds", "hold")
    inside = [place for place in tale.places if within_page(tale.case, place)]
    if len(inside) == len(tale.places):
        return f"reordered: {tale.subject} {hold} {tale.verb('its', 'their')} own words in another order"
    return f"reordered: {tale.subject} {hold} one another's bytes"


def _overwritten(tale: Tale) -> str:
    timing = tale.timing
    were = tale.verb("was", "were")
    if timing is None:
        return f"overwritten: {tale.subject} {were} right at receive and wrong later"
    told = f"overwritten: {tale.subject} {were} right at {timing.before} and wrong at {timing.look}"
    return f"{told}, {time_text(timing.after_receive_s)} after receive"


_SENTENCES: dict[Cause, Callable[[Tale], str]] = {
    Cause.sent_early: _sent_early,
    Cause.late: _late,
    Cause.source_changed: _source_changed,
    Cause.cross_room: _cross_room,
    Cause.stale: _stale,
    Cause.zeroed: _zeroed,
    Cause.reordered: _reordered,
    Cause.overwritten: _overwritten,
}


def _boundary(tale: Tale, what: str) -> str:
    return f"; {pages_text(tale.boundary)} at the run's edge: {what} as a whole" if tale.boundary else ""


def _givers(donors: Sequence[Donor]) -> str:
    rooms = list(dict.fromkeys(donor.room for donor in donors if donor.how is How.digests))
    return f"{'room' if len(rooms) == 1 else 'rooms'} {_rooms(rooms)}"


def _rooms(rooms: Sequence[str]) -> str:
    more = [f"{len(rooms) - 3} more"] if len(rooms) > 3 else []
    return join_words([*rooms[:3], *more])
