"""Posting over a real socket, to servers that behave and to such that do not."""

from __future__ import annotations

import shutil
import socket
import ssl
import subprocess
import threading
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from pd_tracer_hooks.client import HttpTransport, Target

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"


@contextmanager
def answering(
    *connections: Sequence[bytes], tls: ssl.SSLContext | None = None
) -> Iterator[tuple[str, list[bytes]]]:
    """A server that gives each connection in turn its answers, one a request, and closes it then.

    Yields its URL and the requests' first lines.
    """
    asked: list[bytes] = []
    listener = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        for answers in connections:
            try:
                connection, _ = listener.accept()
            except OSError:
                return  # the test is over
            try:
                if tls is not None:
                    connection = tls.wrap_socket(connection, server_side=True)
                with connection.makefile("rwb") as stream:
                    for answer in answers:
                        asked.append(stream.readline().strip())
                        headers = dict(line.split(b": ", 1) for line in iter(stream.readline, b"\r\n"))
                        stream.read(int(headers[b"Content-Length"]))
                        stream.write(answer)
                        stream.flush()
            except OSError:
                pass  # the client hung up
            finally:
                connection.close()

    thread = threading.Thread(target=serve)
    thread.start()
    scheme = "http" if tls is None else "https"
    try:
        yield f"{scheme}://127.0.0.1:{listener.getsockname()[1]}", asked
    finally:
        listener.shutdown(socket.SHUT_RDWR)
        thread.join(10)
        listener.close()
        assert not thread.is_alive()


@pytest.mark.parametrize(
    ("url", "target"),
    [
        ("http://c", Target(False, "c", 80, "/v1/reports")),
        ("https://c", Target(True, "c", 443, "/v1/reports")),
        ("http://c:8400/", Target(False, "c", 8400, "/v1/reports")),
        ("https://c/tracer/", Target(True, "c", 443, "/tracer/v1/reports")),
        ("http://[::1]", Target(False, "::1", 80, "/v1/reports")),
        ("http://[::1]:8400", Target(False, "::1", 8400, "/v1/reports")),
    ],
)
def test_a_url_says_where_to_post(url: str, target: Target) -> None:
    assert Target.parse(url) == target


@pytest.mark.parametrize(
    "url",
    [
        "collector:8400",
        "ftp://c",
        "http://",
        "http://:80",
        "http://c:port",
        "http://c:70000",
        "http://[::1",
        "http://user:secret@c",
        "http://c/?x=1",
        "http://c/#x",
        "http://c/a b",
        "http://c/\r\nX: y",
        "http://cöllector",
    ],
)
def test_a_url_that_cannot_be_posted_to_is_refused_without_repeating_it(url: str) -> None:
    with pytest.raises(ValueError, match="use http://HOST:PORT") as caught:
        Target.parse(url)
    assert "secret" not in str(caught.value)


def test_one_connection_is_kept_and_opened_anew_once_it_was_closed() -> None:
    with answering([OK, OK], [OK]) as (url, asked), closing(HttpTransport(url)) as transport:
        for _ in range(3):
            assert transport.send(b"body", 5).body == b"ok"
    assert asked == [b"POST /v1/reports HTTP/1.1"] * 3


def test_an_answer_that_ends_its_connection_is_believed() -> None:
    ending = b"HTTP/1.1 503 No\r\nRetry-After: 7\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"
    with answering([ending], [OK]) as (url, _), closing(HttpTransport(url)) as transport:
        first = transport.send(b"body", 5)
        assert (first.status, first.retry_after) == (503, 7.0)
        assert transport.send(b"body", 5).status == 200


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("3", 3.0), ("-3", 0.0), ("nan", 0.0), ("Wed, 21 Oct 2026 07:28:00 GMT", None), ("soon", None)],
)
def test_retry_after_in_seconds_is_read(text: str, seconds: float | None) -> None:
    answer = f"HTTP/1.1 429 Wait\r\nRetry-After: {text}\r\nContent-Length: 0\r\n\r\n".encode()
    with answering([answer]) as (url, _), closing(HttpTransport(url)) as transport:
        assert transport.send(b"body", 5).retry_after == seconds


@pytest.mark.parametrize(
    "garbage",
    [b"SSH-2.0-OpenSSH\r\n", b"HTTP/1.1 abc\r\n\r\n", b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n"],
)
@pytest.mark.parametrize("kept", [False, True])
def test_what_is_no_answer_is_an_os_error_and_the_next_post_starts_anew(garbage: bytes, kept: bool) -> None:
    """On a kept connection too: the caller knows no other kind of failure."""
    first = [OK, garbage] if kept else [garbage]
    with answering(first, [OK]) as (url, _), closing(HttpTransport(url)) as transport:
        if kept:
            transport.send(b"body", 5)
        with pytest.raises(OSError, match="no HTTP"):
            transport.send(b"body", 5)
        assert transport.send(b"body", 5).status == 200


def test_garbage_after_a_connection_was_opened_anew_is_an_os_error_too() -> None:
    with answering([OK], [b"what?\r\n"]) as (url, _), closing(HttpTransport(url)) as transport:
        transport.send(b"body", 5)
        with pytest.raises(OSError, match="no HTTP"):
            transport.send(b"body", 5)


def test_a_server_that_says_nothing_is_given_up_in_time() -> None:
    with closing(socket.create_server(("127.0.0.1", 0))) as silent:
        transport = HttpTransport(f"http://127.0.0.1:{silent.getsockname()[1]}")
        with pytest.raises(TimeoutError):
            transport.send(b"body", 0.05)
        transport.close()


def test_redirects_are_not_followed() -> None:
    away = b"HTTP/1.1 307 Elsewhere\r\nLocation: http://127.0.0.1:1/\r\nContent-Length: 0\r\n\r\n"
    with answering([away]) as (url, asked), closing(HttpTransport(url)) as transport:
        assert transport.send(b"body", 5).status == 307
    assert len(asked) == 1


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """(certificate, key) of 127.0.0.1, trusted by nobody."""
    if shutil.which("openssl") is None:
        pytest.skip("openssl is not installed: no certificate to serve with")
    folder = tmp_path_factory.mktemp("tls")
    cert, key = folder / "cert.pem", folder / "key.pem"
    subprocess.run(
        [
            *("openssl", "req", "-x509", "-nodes", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256"),
            *("-subj", "/CN=127.0.0.1", "-addext", "subjectAltName=IP:127.0.0.1", "-days", "1"),
            *("-keyout", str(key), "-out", str(cert)),
        ],
        check=True,
        capture_output=True,
    )
    return cert, key


@pytest.mark.parametrize("trusted", [True, False])
def test_https_is_spoken_to_those_whose_certificate_is_trusted(
    certificate: tuple[Path, Path], trusted: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(*certificate)
    if trusted:
        monkeypatch.setenv("SSL_CERT_FILE", str(certificate[0]))
    with answering([OK], tls=tls) as (url, asked), closing(HttpTransport(url)) as transport:
        if trusted:
            assert transport.send(b"body", 5).body == b"ok"
        else:
            with pytest.raises(ssl.SSLCertVerificationError):
                transport.send(b"body", 5)
    assert len(asked) == (1 if trusted else 0)
