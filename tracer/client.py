"""A small client of the collector's read side, for the command line and for scripts.

Each call answers with a :class:`Reply`: the body as it came, and the same as a model when asked for.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from types import TracebackType
from typing import TYPE_CHECKING, Any, Generic, TypeVar
from urllib.parse import quote

import httpx

from tracer import __version__

if TYPE_CHECKING:
    from tracer.api.models import Culprits, Exonerated, Room, RoomPage, Summary, Workers

DEFAULT_URL = "http://127.0.0.1:8400"
_LOOPBACK = frozenset({"127.0.0.1", "localhost", "::1"})
#: Rooms that one request can ask for.
PAGE = 1000

T = TypeVar("T")
Value = str | int | float
Params = Mapping[str, Value | Sequence[str] | None]


class ClientError(Exception):
    """The collector did not give what was asked for. ``hint`` is the way out."""

    def __init__(self, error: str, hint: str = "") -> None:
        super().__init__(error)
        self.error = error
        self.hint = hint


class UnreachableError(ClientError):
    """Nothing answers, or not in time, or it is no collector, or it says that it cannot now."""


class NotFoundError(ClientError):
    """The collector does not have it."""


class RefusedError(ClientError):
    """The collector does not understand the question: a parameter is wrong, or more is to be said."""


@dataclass(frozen=True)
class Reply(Generic[T]):
    """An answer: ``body`` is JSON as it came, ``value`` the model that it stands for."""

    body: bytes
    _parse: Callable[[bytes], T]

    @cached_property
    def value(self) -> T:
        """The model. Raises :class:`UnreachableError` for an answer of another shape."""
        try:
            return self._parse(self.body)
        except ValueError as error:
            raise UnreachableError(
                f"the collector's answer has another shape than pd-tracer {__version__} expects",
                "use the release that the collector has, or --json",
            ) from error


class Client:
    """Asks one collector. Every call raises a :class:`ClientError` that says what to do."""

    def __init__(
        self, url: str = DEFAULT_URL, *, timeout_s: float = 15.0, transport: httpx.BaseTransport | None = None
    ) -> None:
        try:
            parsed = httpx.URL(url)
        except httpx.InvalidURL as error:
            raise RefusedError(f"url {url!r}: {error}", f"write it like {DEFAULT_URL}") from error
        if parsed.scheme not in ("http", "https") or not parsed.host:
            raise RefusedError(f"url {url!r} is no http or https address", f"write it like {DEFAULT_URL}")
        self.url = url.rstrip("/")
        self._http = httpx.Client(
            timeout=timeout_s,
            transport=transport,
            headers={"User-Agent": f"pd-tracer/{__version__}", "Accept": "application/json"},
            # A proxy cannot reach this machine's own loopback.
            trust_env=parsed.host not in _LOOPBACK,
        )

    def __enter__(self) -> Client:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

    def rooms(self, **filters: Value | Sequence[str] | None) -> Reply[RoomPage]:
        """One page of ``GET /rooms``; filters as docs/api.md lists them."""

        def parse(body: bytes) -> RoomPage:
            from tracer.api.models import RoomPage  # noqa: PLC0415 - pydantic takes its time

            return RoomPage.model_validate_json(body)

        return Reply(self._get("/rooms", filters), parse)

    def room_pages(self, limit: int, **filters: Value | Sequence[str] | None) -> Iterator[Reply[RoomPage]]:
        """As many pages as ``limit`` rooms take."""
        while limit > 0:
            size = min(limit, PAGE)
            page = self.rooms(**{**filters, "limit": size})
            yield page
            following = json.loads(page.body).get("next")
            if following is None:
                return
            filters["cursor"] = following
            limit -= size

    def room(self, room: str, deployment: str | None = None) -> Reply[Room]:
        """``GET /rooms/{room}``."""

        def parse(body: bytes) -> Room:
            from tracer.api.models import Room  # noqa: PLC0415

            return Room.model_validate_json(body)

        # Dots are quoted as well: a room called ".." must not climb.
        path = quote(room, safe="").replace(".", "%2E")
        return Reply(self._get(f"/rooms/{path}", {"deployment": deployment}), parse)

    def summary(self, window: str | None = None, deployment: str | None = None) -> Reply[Summary]:
        """``GET /summary``."""

        def parse(body: bytes) -> Summary:
            from tracer.api.models import Summary  # noqa: PLC0415

            return Summary.model_validate_json(body)

        return Reply(self._get("/summary", {"window": window, "deployment": deployment}), parse)

    def culprits(
        self, window: str | None = None, deployment: str | None = None, limit: int | None = None
    ) -> Reply[Culprits]:
        """``GET /culprits``."""

        def parse(body: bytes) -> Culprits:
            from tracer.api.models import Culprits  # noqa: PLC0415

            return Culprits.model_validate_json(body)

        params: Params = {"window": window, "deployment": deployment, "limit": limit}
        return Reply(self._get("/culprits", params), parse)

    def exonerated(
        self, window: str | None = None, deployment: str | None = None, limit: int | None = None
    ) -> Reply[Exonerated]:
        """``GET /exonerated``."""

        def parse(body: bytes) -> Exonerated:
            from tracer.api.models import Exonerated  # noqa: PLC0415

            return Exonerated.model_validate_json(body)

        params: Params = {"window": window, "deployment": deployment, "limit": limit}
        return Reply(self._get("/exonerated", params), parse)

    def workers(self, **filters: Value | Sequence[str] | None) -> Reply[Workers]:
        """``GET /workers``; filters as docs/api.md lists them."""

        def parse(body: bytes) -> Workers:
            from tracer.api.models import Workers  # noqa: PLC0415

            return Workers.model_validate_json(body)

        return Reply(self._get("/workers", filters), parse)

    def _get(self, path: str, params: Params) -> bytes:
        given: list[tuple[str, Any]] = []
        for name, value in params.items():
            if isinstance(value, Sequence) and not isinstance(value, str):
                given += [(name, item) for item in value]
            elif value is not None:
                given.append((name, value))
        try:
            answer = self._http.get(self.url + path, params=httpx.QueryParams(given))
        except httpx.TimeoutException as error:
            raise UnreachableError(f"{self.url} did not answer in time") from error
        except httpx.HTTPError as error:
            raise UnreachableError(
                f"no collector answers at {self.url} ({error})",
                "start one with `pd-tracer serve`, or say where it is with --url or PD_TRACER_URL",
            ) from error
        if answer.status_code == httpx.codes.OK and _is_json(answer):
            return answer.content
        raise self._error(answer)

    def _error(self, answer: httpx.Response) -> ClientError:
        problem = _problem(answer)
        if problem is None:
            return UnreachableError(
                f"{self.url} answers {answer.status_code}, but not as a collector does",
                "say where the collector is with --url or PD_TRACER_URL",
            )
        error, hint = problem
        if answer.status_code == httpx.codes.NOT_FOUND:
            return NotFoundError(error, hint)
        if answer.is_client_error:
            return RefusedError(error, hint)
        return UnreachableError(error, hint)


def _is_json(answer: httpx.Response) -> bool:
    return bool(answer.headers.get("content-type", "").startswith("application/json"))


def _problem(answer: httpx.Response) -> tuple[str, str] | None:
    """(error, hint) of an answer in the collector's shape of a problem, or None for another one."""
    try:
        body = answer.json()
    except ValueError:
        return None
    if not isinstance(body, dict) or not isinstance(body.get("error"), str):
        return None
    if "deployments" in body:
        names = ", ".join(map(str, body["deployments"]))
        return body["error"], f"say --deployment, one of: {names}"
    return body["error"], str(body.get("hint", ""))
