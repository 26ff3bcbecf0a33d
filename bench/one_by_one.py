"""The plain way, for comparison: one POST a report, pydantic, one ORM commit each."""

from __future__ import annotations

import os
from typing import Any

from fastapi import FastAPI
from pydantic import BaseModel
from sqlalchemy import JSON, BigInteger, String, create_engine
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column


class Base(DeclarativeBase):
    pass


class Row(Base):
    __tablename__ = "one_by_one"
    deployment: Mapped[str] = mapped_column(String, primary_key=True)
    room: Mapped[str] = mapped_column(String, primary_key=True)
    worker: Mapped[str] = mapped_column(String, primary_key=True)
    seq: Mapped[int] = mapped_column(BigInteger, primary_key=True)
    stage: Mapped[str]
    components: Mapped[list[dict[str, Any]]] = mapped_column(JSON)


class Component(BaseModel):
    name: str
    signature: str
    pages: int
    k: int
    coverage: str
    layers: list[int]
    runs: list[tuple[int, int]]
    sums: list[str]
    cells: list[int]
    buckets: list[str] = []


class Observation(BaseModel):
    room: str
    keys: list[str]
    stage: str
    seq: int
    at: float
    request: str = ""
    tokens: int | None = None
    components: list[Component]


class Worker(BaseModel):
    id: str
    boot: str
    deployment: str
    side: str
    server: str


class Report(BaseModel):
    wire: str
    worker: Worker
    observations: list[Observation]


engine = create_engine(os.environ["ONE_BY_ONE_DATABASE"])
Base.metadata.drop_all(engine)
Base.metadata.create_all(engine)
app = FastAPI()


@app.get("/readyz")
def ready() -> dict[str, bool]:
    return {"ready": True}


@app.post("/v1/reports")
def take(report: Report) -> dict[str, int]:
    with Session(engine) as session:
        for seen in report.observations:
            session.add(
                Row(
                    deployment=report.worker.deployment,
                    room=seen.room,
                    worker=report.worker.id,
                    seq=seen.seq,
                    stage=seen.stage,
                    components=[component.model_dump() for component in seen.components],
                )
            )
        session.commit()
    return {"accepted": len(report.observations)}
