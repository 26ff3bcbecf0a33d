"""What is read of the engine's request object, whose fields have moved between releases."""

from __future__ import annotations

from typing import Any

#: The host of requests that only pretend to bootstrap, and the prefix of the health check's ids.
FAKE_HOST = "2.2.2.2"
HEALTH_CHECK = "HEALTH_CHECK"


class Request:
    """A reading of the engine's ``Req``."""

    __slots__ = ("_req",)

    def __init__(self, req: Any) -> None:
        self._req = req

    @property
    def room(self) -> str:
        """The room as text; empty where the request has none."""
        room = getattr(self._req, "bootstrap_room", None)
        return "" if room is None else str(room)

    @property
    def id(self) -> str:
        """The engine's request id."""
        return str(getattr(self._req, "rid", "") or "")[:256]

    @property
    def prompt_tokens(self) -> int:
        """Tokens whose KV is handed over: the prompt, and what was generated before a rebootstrap."""
        count = len(self._req.origin_input_ids)
        if getattr(self._req, "pd_rebootstrap_in_progress", False):
            count += len(self._req.output_ids)
        return count

    @property
    def bootstrap(self) -> str:
        """The prefill server's address as clients know it: ``host:port``, or empty."""
        host = getattr(self._req, "bootstrap_host", None)
        port = getattr(self._req, "bootstrap_port", None)
        return f"{host}:{port}" if host and port else ""

    @property
    def fake(self) -> bool:
        """Whether nothing is transferred for this request."""
        return getattr(self._req, "bootstrap_host", None) == FAKE_HOST

    @property
    def sender_pages(self) -> int | None:
        """Pages that the prefill side will send, by its sender's own count."""
        count = getattr(getattr(self._req, "disagg_kv_sender", None), "num_kv_indices", None)
        return None if count is None else int(count)


def is_traced(request: Request) -> bool:
    """Whether a request is a real one: no health check, no pretended bootstrap."""
    return bool(request.room) and not request.fake and not request.id.startswith(HEALTH_CHECK)
