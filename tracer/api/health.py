"""``/healthz`` and ``/readyz``: whether the process runs, and whether it can take reports."""

from __future__ import annotations

from fastapi import APIRouter, Request, Response
from pydantic import BaseModel, Field
from sqlalchemy.exc import SQLAlchemyError

from tracer.collector import Collector
from tracer.store import migrate

router = APIRouter(tags=["health"])


class Health(BaseModel):
    """Whether it is well, and what is wrong if it is not."""

    ok: bool = Field(examples=[True])
    problems: list[str] = Field(default=[], examples=[[]])


@router.get("/healthz")
async def healthz() -> Health:
    """The process runs."""
    return Health(ok=True)


def problems(collector: Collector) -> list[str]:
    """Why the collector cannot take reports. Empty when it can."""
    found = []
    if not collector.writer.alive:
        found.append("the writer is not running")
    try:
        current, head = migrate.current(collector.database), migrate.head()
        if current != head:
            found.append(f"the schema is {current or 'empty'}, {head} is needed: run `pd-tracer migrate`")
    except SQLAlchemyError as error:
        found.append(f"the database is away: {type(error).__name__}")
    return found


@router.get("/readyz", responses={503: {"model": Health, "description": "Not ready, and why."}})
def readyz(request: Request, response: Response) -> Health:
    """The database answers, its schema is current, and the writer is alive."""
    found = problems(request.app.state.collector)
    if found:
        response.status_code = 503
    return Health(ok=not found, problems=found)
