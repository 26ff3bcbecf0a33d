"""How the read side says that something is wrong: one shape for every status."""

from __future__ import annotations

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from sqlalchemy.exc import SQLAlchemyError

from tracer.api.models.base import Problem


class ProblemError(Exception):
    """Answered with ``status`` and a :class:`Problem`."""

    def __init__(self, status: int, error: str, *, field: str = "", hint: str = "") -> None:
        super().__init__(error)
        self.status = status
        self.problem = Problem(error=error, field=field, hint=hint)


def _answer(status: int, problem: Problem, headers: dict[str, str] | None = None) -> JSONResponse:
    return JSONResponse(problem.model_dump(), status, headers)


async def _on_problem(_: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, ProblemError)
    return _answer(error.status, error.problem)


async def _on_invalid(_: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, RequestValidationError)
    first = error.errors()[0]
    # The first part says where the parameter stands (query, path), not what it is called.
    field = ".".join(str(part) for part in first["loc"][1:])
    return _answer(422, Problem(error=f"{field or 'request'}: {first['msg']}", field=field, hint="see /docs"))


async def _on_database(_: Request, error: Exception) -> JSONResponse:
    return _answer(
        503,
        Problem(
            error=f"the database is away: {type(error).__name__}",
            field="",
            hint="try again; /readyz says more",
        ),
        {"Retry-After": "1"},
    )


def handle_problems(app: FastAPI) -> None:
    """Have ``app`` answer problems, wrong parameters and a database that is away in the one shape."""
    app.add_exception_handler(ProblemError, _on_problem)
    app.add_exception_handler(RequestValidationError, _on_invalid)
    app.add_exception_handler(SQLAlchemyError, _on_database)
