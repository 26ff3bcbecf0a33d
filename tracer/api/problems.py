"""One shape for everything that goes wrong: the wire's ``Problem``, also where FastAPI has its own."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec
import structlog
from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from sqlalchemy.exc import SQLAlchemyError
from starlette.exceptions import HTTPException

from pd_tracer_hooks.wire import JSON, Problem
from tracer.store.reading import TooSlowError

log = structlog.get_logger(__name__)

_RETRY_AFTER_S = 1


class ProblemError(Exception):
    """Answers the request with ``status`` and a problem."""

    def __init__(self, status: int, error: str, *, field: str = "", hint: str = "") -> None:
        super().__init__(error)
        self.status = status
        self.problem = Problem(error=error, field=field, hint=hint)


def handle_problems(app: FastAPI) -> None:
    """Have ``app`` answer every error as a problem."""
    app.add_exception_handler(ProblemError, _problem)
    app.add_exception_handler(RequestValidationError, _invalid)
    app.add_exception_handler(HTTPException, _http)
    app.add_exception_handler(TooSlowError, _too_slow)
    app.add_exception_handler(SQLAlchemyError, _database)
    app.add_exception_handler(Exception, _fault)


def _answer(status: int, problem: Problem, headers: Mapping[str, str] | None = None) -> Response:
    return Response(
        msgspec.json.encode(problem), status, media_type=JSON, headers=dict(headers) if headers else None
    )


def _problem(_request: Request, error: Exception) -> Response:
    assert isinstance(error, ProblemError)
    return _answer(error.status, error.problem)


def _invalid(_request: Request, error: Exception) -> Response:
    """A parameter that is not what the route declares. The first one is named."""
    assert isinstance(error, RequestValidationError)
    first = error.errors()[0]
    name = ".".join(str(part) for part in first["loc"][1:2])
    if first["type"] == "extra_forbidden":
        return _answer(
            422, Problem(error=f"there is no parameter {name!r:.100}", field=name, hint="/docs lists them")
        )
    given = first.get("input")
    value = f", got {given!r:.80}" if isinstance(given, str | int | float) else ""
    message = first["msg"].removeprefix("Value error, ")
    # What parses a value says itself what it got.
    value = "" if first["type"] == "value_error" else value
    return _answer(422, Problem(error=f"{name}: {message}{value}", field=name))


def _http(_request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    hint = "/docs lists what there is" if error.status_code in (404, 405) else ""
    return _answer(error.status_code, Problem(error=str(error.detail), hint=hint), error.headers)


def _too_slow(_request: Request, error: Exception) -> Response:
    hint = "narrow it with since=, until= or deployment= and ask again"
    return _answer(503, Problem(error=str(error), field="since", hint=hint))


def _database(request: Request, error: Exception) -> Response:
    """The database is away, or busy for too long. Its own words can name hosts and stay in the log."""
    log.warning("database does not answer", path=request.url.path, error=str(error))
    problem = Problem(
        error=f"the database does not answer ({type(error).__name__})",
        hint="try again; /readyz says what is wrong",
    )
    return _answer(503, problem, {"Retry-After": str(_RETRY_AFTER_S)})


def _fault(_request: Request, error: Exception) -> Response:
    """A fault of ours. The server logs it with its traceback, which is nothing for an answer."""
    problem = Problem(
        error=f"a fault in the collector ({type(error).__name__})",
        hint="its log says more; please report it",
    )
    # The server closes the connection after a fault; the client must not send another request on it.
    return _answer(500, problem, {"Connection": "close"})
