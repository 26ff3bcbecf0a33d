"""The way through the steps: ask the collector, send the request, wait for its room."""

from __future__ import annotations

import time
from collections.abc import Iterator

from tracer.api.models import RoomSummary, Worker
from tracer.client import Client
from tracer.verify import steps
from tracer.verify.service import Sent, send_request
from tracer.verify.steps import Outcome, Step

#: How long the room may take from the request's end.
WAIT_S = 10.0
_ASK_EVERY_S = 0.1


def verify(
    client: Client, url: str, *, deployment: str | None = None, wait_s: float = WAIT_S
) -> Iterator[Outcome]:
    """Yield each step's outcome as it comes; ends at the first that is missing.

    Raises a :class:`tracer.client.ClientError` where the collector does not answer.
    """
    before = _workers(client, deployment)
    outcome = steps.attached(before)
    yield outcome
    if not outcome.ok:
        return
    began = time.time()
    sent = send_request(url)
    yield Outcome(Step.request, sent.ok, sent.message, "" if sent.ok else "mend the service first")
    if not sent.ok:
        return
    room = _room(client, sent, began, deployment, wait_s)
    outcome = steps.reported(room, before, _workers(client, deployment))
    yield outcome
    if room is None:
        return
    outcome = steps.both_sides(room)
    yield outcome
    if outcome.ok:
        yield steps.judged(room)


def _workers(client: Client, deployment: str | None) -> list[Worker]:
    return list(client.workers(deployment=deployment).value.workers)


def _room(
    client: Client, sent: Sent, began: float, deployment: str | None, wait_s: float
) -> RoomSummary | None:
    """The request's room, settled if that comes in time, else as it stands, or None."""
    deadline = time.monotonic() + wait_s
    while True:
        found = _find(client, sent, began, deployment)
        if (found is not None and found.settled) or time.monotonic() > deadline:
            return found
        time.sleep(_ASK_EVERY_S)


def _find(client: Client, sent: Sent, began: float, deployment: str | None) -> RoomSummary | None:
    """By the request's id; where the API takes none, the newest room that began since."""
    if sent.request:
        page = client.rooms(request=sent.request, deployment=deployment, limit=1).value
    else:
        page = client.rooms(deployment=deployment, limit=1).value
    rooms = [room for room in page.rooms if sent.request or room.first_seen >= began - 1.0]
    return rooms[0] if rooms else None
