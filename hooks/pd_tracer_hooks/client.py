"""Posts to the collector over one connection that is kept alive."""

from __future__ import annotations

import http.client
import ssl
from dataclasses import dataclass
from typing import Protocol
from urllib.parse import urlsplit

from pd_tracer_hooks.version import __version__
from pd_tracer_hooks.wire import MSGPACK

#: An answer longer than this is cut: nothing of ours is.
MAX_ANSWER_BYTES = 4 << 20


@dataclass(frozen=True)
class Response:
    """The collector's answer. ``retry_after``: seconds, where it said so."""

    status: int
    body: bytes
    retry_after: float | None = None


class Transport(Protocol):
    """A way to deliver an encoded report."""

    def send(self, body: bytes, timeout: float) -> Response:
        """Deliver ``body``; raises ``OSError`` (timeouts too) when there was no answer."""
        ...

    def close(self) -> None:
        """Let go of the connection."""
        ...


class HttpTransport:
    """Delivers by HTTP or HTTPS. Used by one thread. Redirects are not followed."""

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError(f"url {url!r}: use http://HOST:PORT or https://HOST:PORT")
        self._secure = parts.scheme == "https"
        self._host, self._port = parts.hostname, parts.port
        self._path = parts.path.rstrip("/") + "/v1/reports"
        self._connection: http.client.HTTPConnection | None = None

    def send(self, body: bytes, timeout: float) -> Response:
        """Post ``body``. A kept connection that the other end has closed meanwhile is opened anew once."""
        fresh = self._connection is None
        try:
            return self._post(body, timeout)
        except (http.client.RemoteDisconnected, BrokenPipeError, ConnectionResetError):
            self.close()
            if fresh:
                raise
            # Records carry their own keys, so posting the same body twice counts once.
            return self._post(body, timeout)
        except http.client.HTTPException as error:
            self.close()
            raise ConnectionError(f"the answer was no HTTP: {error!r}") from error
        except OSError:
            self.close()
            raise

    def _post(self, body: bytes, timeout: float) -> Response:
        connection = self._connect(timeout)
        headers = {"Content-Type": MSGPACK, "User-Agent": f"pd-tracer-hooks/{__version__}"}
        connection.request("POST", self._path, body, headers)
        answer = connection.getresponse()
        text = answer.read(MAX_ANSWER_BYTES)
        if answer.will_close or not answer.isclosed():
            self.close()
        return Response(answer.status, text, _seconds(answer.getheader("Retry-After")))

    def _connect(self, timeout: float) -> http.client.HTTPConnection:
        if self._connection is None:
            if self._secure:
                context = ssl.create_default_context()
                self._connection = http.client.HTTPSConnection(self._host, self._port, context=context)
            else:
                self._connection = http.client.HTTPConnection(self._host, self._port)
        self._connection.timeout = timeout
        if self._connection.sock is not None:
            self._connection.sock.settimeout(timeout)
        return self._connection

    def close(self) -> None:
        """Let go of the connection; the next post opens a new one."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None


def _seconds(text: str | None) -> float | None:
    try:
        return max(0.0, float(text)) if text is not None else None
    except ValueError:
        return None
