"""One room for a person: the page of ``pd-tracer room`` and ``pd-tracer explain --room``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tracer.cli.blocks import Glyphs, blocks, heading, legend
from tracer.cli.evidence import exoneration_lines, words
from tracer.cli.output import ago, cells, console, table, verdict_text, visible
from tracer.explain import pair_text, where_text
from tracer.join.intervals import from_runs
from tracer.join.model import Cause, Where
from tracer.join.wording import ranges
from tracer.times import iso

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.console import Console
    from rich.table import Table

    from tracer.api.models import Room
    from tracer.api.models.component import Component
    from tracer.api.models.room import Neighbour, PageMap, TimelineDetail, TimelineEntry

#: Maps that are drawn; of more only the number is said.
_MAPS = 6


def show_room(found: Room) -> None:
    """Print a room: the sentence first, then what it rests on, then the records."""
    out = console()
    out.print(verdict_text(found.verdict.value, found.summary), soft_wrap=True)
    if found.reason and visible(found.reason.rstrip(".")) not in found.summary:
        out.print(*cells(found.reason), soft_wrap=True)
    for name, value in _facts(found):
        out.print(*cells(f"{name:>12}  {value}"), soft_wrap=True)
    for line in exoneration_lines(found):
        out.print(*cells(line), soft_wrap=True)
    if found.components:
        out.print(_components(found.components))
    for line in words(found.components):
        out.print(*cells(line), soft_wrap=True)
    _show_maps(out, found.map)
    if found.neighbours:
        out.print(_neighbours(found.neighbours))
    transfers = _transfers(found)
    if transfers is not None:
        out.print(transfers)
    if found.timeline:
        out.print(_timeline(found))
    if found.timeline_truncated:
        console(stderr=True).print("the timeline is longer; this is its beginning")


def _facts(found: Room) -> list[tuple[str, str]]:
    requests = [text for text in (found.request_prefill, found.request_decode) if text]
    delay = ""
    if found.join_delay_s is not None:
        delay = f"{found.join_delay_s:.3f} s from send to receive, as they arrived"
    facts = [
        ("deployment", found.deployment),
        ("coverage", found.coverage.value if found.coverage is not None else ""),
        ("requests", " / ".join(dict.fromkeys(requests))),
        ("trace", found.trace),
        ("run", found.run),
        ("seen", f"{_clock(found.first_seen)} to {_clock(found.last_seen)}"),
        ("join", delay),
        ("revisions", str(found.revisions) if found.revisions else ""),
    ]
    return [(name, value) for name, value in facts if value]


def _components(parts: list[Component]) -> Table:
    shown = table("component", "verdict", "where", "pages P/D", "layers", "coverage", "why")
    for part in parts:
        where = None
        if part.where is not None:
            where = Where(
                regions=part.where.regions, layers=part.where.layers, page_runs=part.where.page_runs
            )
        pages = [str(side.pages) if side.pages is not None else "-" for side in (part.prefill, part.decode)]
        layers = f"{len(part.layers)}/{part.layers_of}" if part.layers_of else str(len(part.layers))
        shown.add_row(
            *cells(
                part.component,
                verdict_text(part.verdict.value, _verdict(part)),
                where_text(where),
                "/".join(pages),
                layers,
                part.coverage.value if part.coverage is not None else "",
                "; ".join(text for text in (part.reason, *part.notes) if text),
            )
        )
    return shown


def _verdict(part: Component) -> str:
    told = part.cause is not None and part.cause is not Cause.unexplained
    return f"{part.verdict.value}: {part.cause.value}" if told and part.cause else part.verdict.value


def _show_maps(out: Console, maps: Sequence[PageMap]) -> None:
    if not maps:
        return
    glyphs = Glyphs.for_encoding(out.encoding)
    out.print()
    for found in maps[:_MAPS]:
        out.print(*cells(heading(found, out.width)), soft_wrap=True)
        for line in blocks(found, out.width, glyphs):
            out.print(line, no_wrap=True, crop=False, soft_wrap=True)
    if len(maps) > _MAPS:
        out.print(f"and {len(maps) - _MAPS} more maps: --json has them")
    out.print(legend(glyphs))


def _neighbours(near: Sequence[Neighbour]) -> Table:
    shown = table("when", "room", "verdict", "what", title="the same pair, before and after")
    for each in near:
        way = "before" if each.offset_s < 0 else "after"
        shown.add_row(
            *cells(
                f"{ago(abs(each.offset_s))} {way}",
                each.room,
                verdict_text(each.verdict.value),
                each.summary.removeprefix(f"room {visible(each.room)}: "),
            )
        )
    return shown


def _transfers(found: Room) -> Table | None:
    """The transfers one by one, where there is more than the one that the sentence speaks of."""
    rows = [(attempt, transfer) for attempt in found.attempts for transfer in attempt.transfers]
    if len(rows) < 2 and len(found.attempts) < 2:
        return None
    shown = table("attempt", "pair", "key", "verdict", "prefill workers", "decode workers", "why")
    for attempt, transfer in rows:
        shown.add_row(
            *cells(
                str(attempt.number),
                pair_text(attempt.prefill_server, attempt.decode_server),
                transfer.key,
                verdict_text(transfer.verdict.value),
                " ".join(transfer.prefill_workers),
                " ".join(transfer.decode_workers),
                transfer.reason,
            )
        )
    return shown


def _timeline(found: Room) -> Table:
    start = found.timeline[0].received
    shown = table("arrived", "side", "worker", "what", "its clock", "keys", "components")
    for entry in found.timeline:
        stage = f"{entry.stage} #{entry.look}" if entry.look else entry.stage
        if entry.kind == "detail":
            stage = f"detail of {stage}"
        shown.add_row(
            *cells(
                f"+{entry.received - start:.3f} s",
                entry.side.value,
                entry.worker,
                stage,
                _clock(entry.at),
                " ".join(entry.keys),
                _said(entry),
            )
        )
    return shown


def _said(entry: TimelineEntry) -> str:
    if entry.kind == "event":
        return " ".join(text for text in (entry.component, entry.reason) if text)
    if entry.detail is not None:
        return _detail(entry.component, entry.reason, entry.detail)
    return "; ".join(
        f"{part.name} {part.coverage.value} pages {ranges(from_runs(part.runs))} of {part.pages},"
        f" {len(part.layers)} layers"
        for part in entry.components
    )


def _detail(component: str, reason: str, detail: TimelineDetail) -> str:
    if detail.gone:
        return f"{component}: gone ({reason})" if reason else f"{component}: gone"
    spans = ranges(from_runs(detail.runs))
    return f"{component} {detail.digests} page digests, pages {spans}, {len(detail.layers)} layers"


def _clock(seconds: float) -> str:
    return iso(seconds)
