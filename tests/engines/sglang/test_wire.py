"""Bits flipped on the wire between two network namespaces, through the engine's real classes."""

from __future__ import annotations

import errno
import os
import random
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from engines.sglang.engine_env import Peer, free_port, traced
from engines.sglang.moves import Move, move, verdict
from engines.sglang.tagged import Place, find
from support.serving import Server

from tracer.demo import wire
from tracer.demo.netns import add_end, remove_end, why_not

PREFILL, DECODE = "10.77.0.1", "10.77.0.2"
LAYERS = 3


class OnePerRoom:
    """Flips one bit in each room, in a word whose place it reads from the frame."""

    def __init__(self, rooms: range) -> None:
        self.hits: dict[int, Place] = {}
        self._rng = random.Random(5)
        #: Frames of each room that still pass, so that other pages and layers are hit than the first.
        self._passing = {room: self._rng.randrange(6) for room in rooms}
        #: End of what each TCP flow has carried so far.
        self._carried: dict[bytes, int] = {}

    def pass_on(self, frame: bytes) -> bytes:
        if len(frame) < 1024 or not self._passing or not self._is_new(frame):
            return frame
        found = find(frame, 54 + self._rng.randrange(len(frame) - 1024 or 1))
        if found is None or found[1].room not in self._passing:
            return frame
        at, place = found
        self._passing[place.room] -= 1
        if self._passing[place.room] >= 0:
            return frame
        del self._passing[place.room]
        self.hits[place.room] = place
        return wire.flip_in_frame(frame, at + 6, self._rng.randrange(8))

    def _is_new(self, frame: bytes) -> bool:
        """Whether it carries bytes for the first time: a busy machine sends some again, to no effect."""
        tcp = 14 + (frame[14] & 15) * 4
        first = int.from_bytes(frame[tcp + 4 : tcp + 8], "big")
        end = first + len(frame) - tcp - (frame[tcp + 12] >> 4) * 4
        flow = frame[26:34] + frame[tcp : tcp + 4]
        carried = self._carried.get(flow, first)
        ahead = (first - carried) % 2**32 < 2**31
        if ahead:
            self._carried[flow] = end % 2**32
        return ahead


@contextmanager
def namespaces(port: int, flipper: OnePerRoom) -> Iterator[tuple[str, str]]:
    """Two namespaces with a wire between them that ``flipper`` sits on; both reach the collector's port."""
    names = (f"pde{os.getpid() % 10000}p", f"pde{os.getpid() % 10000}d")
    stop = threading.Event()
    try:
        for name, host in zip(names, (PREFILL, DECODE), strict=True):
            add_end(name, "wire0", name, f"{host}/24")
            wire._relay(name, port)
        bridge = wire.Bridge(*names, 0.0, flipper)  # type: ignore[arg-type]

        def carry() -> None:
            while not stop.is_set():
                try:
                    bridge.step()
                except OSError as fault:
                    # Said once by a link that has just come up, or is about to go.
                    if fault.errno != errno.ENETDOWN:
                        raise

        thread = threading.Thread(target=carry, daemon=True)
        thread.start()
        yield names
        stop.set()
        thread.join(5)
        for end in bridge._ends:
            end.close()
    finally:
        stop.set()
        for name in names:
            remove_end(name, name)


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_one_bit_a_room_is_found_at_its_page_and_layer(collector: Server, tmp_path: Path) -> None:
    missing = why_not()
    if missing:
        pytest.skip(missing)
    rooms = range(1000, 1008)
    flipper = OnePerRoom(rooms)
    with namespaces(urlsplit(collector.url).port or 0, flipper) as (here, there):
        port = free_port()
        env = traced(collector.url, PEER_BOOTSTRAP=PREFILL)
        sides = [
            Peer(
                role,
                "mooncake",
                "mha",
                port,
                {**env, "PEER_HOST": host, "SGLANG_HOST_IP": host},
                tmp_path / role,
                within=name,
            )
            for role, host, name in (("prefill", PREFILL, here), ("decode", DECODE, there))
        ]
        prefill, decode = sides
        try:
            prefill.reply(90)
            decode.reply(90)
            source, target = list(range(2, 22)), list(range(40, 20, -1))
            for number, room in enumerate([*rooms, 1100]):
                it = Move(room, "mha", source, target, 16 * 20, [8, 12], aux=number % 8 + 1, tagged=True)
                assert move(prefill, decode, it) == ("success", "success")
                decode.do("release", room=room)
            assert len(flipper.hits) >= 6, "the wire found too few words to flip"
            for room in rooms:
                place = flipper.hits.get(room)
                body = verdict(collector, room, "mismatch" if place else "match")
                if place is not None:
                    [hurt] = [c for c in body["components"] if c["verdict"] == "mismatch"]
                    assert hurt["component"] == ("k" if place.buffer < LAYERS else "v")
                    assert hurt["where"]["layers"] == [place.buffer % LAYERS]
                    assert hurt["where"]["page_runs"] == [[place.page, 1]]
            verdict(collector, 1100, "match")
            print(
                f"{len(flipper.hits)} of {len(rooms)} rooms hit on the wire, each found at its page and layer"
            )
        finally:
            for side in sides:
                side.stop()
