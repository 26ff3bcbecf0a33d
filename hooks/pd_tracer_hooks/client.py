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

#: What posting over a kept connection meets when the other end has closed it meanwhile.
_CLOSED_MEANWHILE = (http.client.RemoteDisconnected, BrokenPipeError, ConnectionResetError)


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


@dataclass(frozen=True)
class Target:
    """Where reports are posted."""

    secure: bool
    host: str
    port: int
    path: str

    @classmethod
    def parse(cls, url: str) -> Target:
        """Read a collector's URL. Raises ``ValueError`` that says what is allowed."""
        try:
            parts = urlsplit(url)
            port = parts.port
        except ValueError as error:
            raise ValueError(f"{error}: use http://HOST:PORT or https://HOST:PORT") from None
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError("use http://HOST:PORT or https://HOST:PORT")
        if parts.username is not None or parts.query or parts.fragment:
            raise ValueError("use http://HOST:PORT or https://HOST:PORT, with nothing but a path behind it")
        if not url.isascii() or any(char.isspace() for char in url):
            raise ValueError("use http://HOST:PORT or https://HOST:PORT in plain ASCII, without blanks")
        secure = parts.scheme == "https"
        # Always with a port: http.client would look for one in an IPv6 address.
        default = http.client.HTTPS_PORT if secure else http.client.HTTP_PORT
        path = parts.path.rstrip("/") + "/v1/reports"
        return cls(secure, parts.hostname, default if port is None else port, path)


class HttpTransport:
    """Delivers by HTTP or HTTPS. Used by one thread. Redirects are not followed."""

    def __init__(self, url: str) -> None:
        self._target = Target.parse(url)
        self._connection: http.client.HTTPConnection | None = None

    def send(self, body: bytes, timeout: float) -> Response:
        """Post ``body``. A kept connection that the other end has closed meanwhile is opened anew once."""
        if self._connection is not None:
            try:
                return self._post(body, timeout)
            except _CLOSED_MEANWHILE:
                pass  # Records carry their own keys, so posting the same body twice counts once.
        return self._post(body, timeout)

    def _post(self, body: bytes, timeout: float) -> Response:
        try:
            connection = self._connect(timeout)
            headers = {"Content-Type": MSGPACK, "User-Agent": f"pd-tracer-hooks/{__version__}"}
            connection.request("POST", self._target.path, body, headers)
            answer = connection.getresponse()
            text = _whole(answer)
        except OSError:
            self.close()
            raise
        except http.client.HTTPException as error:
            self.close()
            raise ConnectionError(f"the answer was no HTTP: {error!r}") from error
        except BaseException:
            self.close()
            raise
        if answer.will_close or not answer.isclosed():
            self.close()
        return Response(answer.status, text, _seconds(answer.getheader("Retry-After")))

    def _connect(self, timeout: float) -> http.client.HTTPConnection:
        if self._connection is None:
            host, port = self._target.host, self._target.port
            if self._target.secure:
                context = ssl.create_default_context()
                self._connection = http.client.HTTPSConnection(host, port, context=context)
            else:
                self._connection = http.client.HTTPConnection(host, port)
        self._connection.timeout = timeout
        if self._connection.sock is not None:
            self._connection.sock.settimeout(timeout)
        return self._connection

    def close(self) -> None:
        """Let go of the connection; the next post opens a new one."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None


def _whole(answer: http.client.HTTPResponse) -> bytes:
    text = answer.read(MAX_ANSWER_BYTES)
    if answer.isclosed() and answer.length:  # a read with a limit takes a cut connection for the end
        raise http.client.IncompleteRead(text, answer.length)
    return text


def _seconds(text: str | None) -> float | None:
    try:
        return max(0.0, float(text)) if text is not None else None
    except ValueError:
        return None
