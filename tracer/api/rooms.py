"""``GET /rooms`` and ``GET /rooms/{room}``."""

from __future__ import annotations

import re
from typing import Annotated
from urllib.parse import quote

from fastapi import APIRouter, Path, Query
from pydantic import Field, field_validator
from starlette.convertors import Convertor, register_url_convertor
from starlette.responses import Response

from tracer.api.deps import Now, Reading
from tracer.api.models import Choices, Room, RoomPage
from tracer.api.models.base import problems
from tracer.api.params import Moment, Name, Params
from tracer.api.problems import ProblemError
from tracer.api.views import room_detail, room_summary
from tracer.join.model import Cause, Verdict
from tracer.store.cursor import Cursor, decode_cursor, encode_cursor
from tracer.store.neighbours_query import read_neighbours
from tracer.store.room_query import find_rooms, read_timeline
from tracer.store.rooms_query import MAX_LIMIT, RoomFilter, list_rooms
from tracer.times import parse_moment


class _AnyText(Convertor[str]):
    """A room in a path. Starlette's own ``path`` ends at a line break, which a room may contain."""

    regex = r"[\s\S]+"

    def convert(self, value: str) -> str:
        return value

    def to_string(self, value: str) -> str:
        return value


register_url_convertor("any_text", _AnyText())
router = APIRouter(tags=["rooms"])
_ARROW = re.compile(r"→|->")


class RoomsQuery(Params):
    """Filters of ``GET /rooms``. Everything that is given must hold."""

    request: Name | None = Field(None, description="Request id of either side")
    trace: Name | None = Field(None, description="Trace id")
    deployment: Name | None = None
    verdict: list[Verdict] = Field([], description="One of these (repeat the parameter)")
    cause: Cause | None = None
    component: Name | None = Field(None, description="A component that has the room's verdict")
    worker: Name | None = Field(None, description="A worker that reported on the room")
    node: Name | None = Field(None, description="A node of which a worker reported on the room")
    server: Name | None = Field(None, description="A server on either side of the pair")
    prefill: Name | None = Field(None, description="The pair's prefill server")
    decode: Name | None = Field(None, description="The pair's decode server")
    pair: Name | None = Field(
        None, description="Both servers as `A->B` or `A→B`; for names with an arrow use `prefill`, `decode`"
    )
    run: Name | None = Field(
        None, description="Labels that the run has, in any order: `kv=bf16` or `kv=bf16,graph=on`"
    )
    since: Moment | None = Field(None, description="Rooms with a report at or after this moment")
    until: Moment | None = Field(None, description="Rooms whose latest report came before this moment")
    limit: int = Field(100, ge=1, le=MAX_LIMIT)
    cursor: Annotated[str, Field(max_length=2048)] | None = Field(
        None, description="`next` of the page before, with the same filters"
    )

    @field_validator("pair")
    @classmethod
    def _is_pair(cls, value: str | None) -> str | None:
        if value is not None:
            split_pair(value)
        return value

    def filter(self, now: float) -> RoomFilter:
        """The store's filter. Raises :class:`ProblemError` for filters that contradict each other."""
        prefill, decode = self.prefill, self.decode
        if self.pair is not None:
            if prefill is not None or decode is not None:
                raise ProblemError(
                    422, "pair is given together with prefill or decode", field="pair", hint="use one of them"
                )
            prefill, decode = split_pair(self.pair)
        labels = self.run.split(",") if self.run else []
        return RoomFilter(
            request=self.request,
            trace=self.trace,
            deployment=self.deployment,
            verdicts=tuple(self.verdict),
            cause=self.cause,
            component=self.component,
            worker=self.worker,
            node=self.node,
            server=self.server,
            prefill=prefill,
            decode=decode,
            run=[label.strip() for label in labels if label.strip()],
            since=parse_moment(self.since, now) if self.since is not None else None,
            until=parse_moment(self.until, now) if self.until is not None else None,
        )

    def after(self) -> Cursor | None:
        """The cursor, read. Raises :class:`ProblemError` for one that this collector did not make."""
        if self.cursor is None:
            return None
        try:
            return decode_cursor(self.cursor)
        except ValueError as error:
            raise ProblemError(
                422,
                f"cursor: {error}",
                field="cursor",
                hint="give back `next` of the page before as it is, or leave it out to begin again",
            ) from error


def split_pair(text: str) -> tuple[str, str]:
    """Prefill and decode server of ``A->B``. Raises ``ValueError`` for anything else."""
    prefill, *rest = _ARROW.split(text, maxsplit=1)
    if not rest or not prefill.strip() or not rest[0].strip():
        raise ValueError("write both servers with an arrow between them, as in A->B")
    return prefill.strip(), rest[0].strip()


@router.get(
    "/rooms",
    summary="Rooms, newest first",
    responses=problems(
        s422="A filter or the cursor is wrong; `field` names it",
        s503="The database is away, or the filters need too long: narrow the time",
    ),
)
def get_rooms(query: Annotated[RoomsQuery, Query()], connection: Reading, now: Now) -> RoomPage:
    """List rooms by their latest report, newest first, a page at a time.

    A room that gets another report moves to the front of the list, so ask again from the start to see
    it; rooms that stay as they are appear exactly once, whatever arrives meanwhile.
    """
    page = list_rooms(connection, query.filter(now), limit=query.limit, after=query.after())
    return RoomPage(
        rooms=[room_summary(row) for row in page.rooms],
        next=encode_cursor(page.next) if page.next is not None else None,
    )


class RoomQuery(Params):
    """Parameters of ``GET /rooms/{room}``."""

    deployment: Name | None = Field(None, description="Needed if several deployments have the room")


@router.get(
    "/rooms/{room:any_text}",
    summary="One room, with everything that its verdict rests on",
    response_model=Room,
    responses={
        409: {"model": Choices, "description": "Several deployments have the room: say which"},
        **problems(
            s404="No such room", s422="A parameter is wrong; `field` names it", s503="The database is away"
        ),
    },
)
def get_room(
    room: Annotated[Name, Path(description="As the engine calls it; quote what is special in a URL")],
    query: Annotated[RoomQuery, Query()],
    connection: Reading,
) -> Response | Room:
    """Say what is known of a room: the verdict in words, where, by attempt and transfer, its records, and how
    the rooms of the same pair fared just before and after.
    """
    found = find_rooms(connection, room, query.deployment)
    if not found:
        within = f" in deployment {query.deployment!r}" if query.deployment is not None else ""
        raise ProblemError(
            404,
            f"no room {room!r:.200}{within}",
            field="room",
            hint="GET /rooms?request=... finds it by request id; a report may still be on its way",
        )
    if len(found) > 1:
        names = [row.deployment for row in found]
        choices = Choices(
            error=f"{len(found)} deployments have a room {room!r:.200}",
            field="deployment",
            hint=f"say which: /rooms/{quote(room)}?deployment={quote(names[0])}",
            deployments=names,
        )
        return Response(choices.model_dump_json(), 409, media_type="application/json")
    one = found[0]
    return room_detail(one, read_timeline(connection, one), read_neighbours(connection, one))
