import socket
import struct
from collections.abc import Iterator

import pytest

from tracer.demo.handshake import Bye, Channel, Drained, Hello, Looked, Message, Open, PeerClosedError, frame

HELLO = Hello(agent="decode-a.1", metadata=b"\x00\xff", buffers={"kv": {0: 1 << 47}}, pid=1)
OPEN = Open(index=4, room=str((1 << 64) - 1), tokens=65, pages=(7, 3), key="00ff00ff00ff00ff")


@pytest.fixture
def ends() -> Iterator[tuple[socket.socket, socket.socket]]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        near = socket.create_connection(server.getsockname(), timeout=5)
        far, _ = server.accept()
    with near, far:
        yield near, far


def test_messages_arrive_as_they_were(ends: tuple[socket.socket, socket.socket]) -> None:
    near, far = Channel(ends[0]), Channel(ends[1])
    sent: list[Message] = [HELLO, OPEN, Looked(index=4, look="receive", last=False), Drained(index=4), Bye()]
    for message in sent:
        near.send(message)
    assert [far.wait() for _ in sent] == sent


def test_what_came_behind_the_greeting_is_not_lost(ends: tuple[socket.socket, socket.socket]) -> None:
    """All in one packet: nothing more will make the socket readable."""
    near, far = Channel(ends[0]), Channel(ends[1])
    near.send(HELLO)
    near.send(OPEN)
    assert ends[1].recv(1, socket.MSG_PEEK)
    assert far.wait() == HELLO
    assert list(far.poll()) == [OPEN]


def test_half_a_message_waits_for_the_rest(ends: tuple[socket.socket, socket.socket]) -> None:
    raw, far = ends[0], Channel(ends[1])
    whole = frame(OPEN)
    raw.sendall(whole[:-1])
    assert ends[1].recv(1, socket.MSG_PEEK)
    assert list(far.poll()) == []
    raw.sendall(whole[-1:])
    assert far.wait() == OPEN


def test_polling_an_idle_channel_does_not_wait(ends: tuple[socket.socket, socket.socket]) -> None:
    assert list(Channel(ends[0]).poll()) == []


def test_a_closed_peer_is_an_error(ends: tuple[socket.socket, socket.socket]) -> None:
    near = Channel(ends[0])
    ends[1].close()
    with pytest.raises(PeerClosedError):
        near.wait()


def test_absurd_lengths_are_refused(ends: tuple[socket.socket, socket.socket]) -> None:
    ends[0].sendall(struct.pack("<I", 1 << 30))
    with pytest.raises(ValueError, match=str(1 << 30)):
        Channel(ends[1]).wait()
