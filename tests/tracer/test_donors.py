"""Another room's bytes in a mismatch's pages: who held them, and whose digests are found there."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from sqlalchemy import text
from support.serving import Server, serve

from pd_tracer_hooks.agent import Agent
from pd_tracer_hooks.capture import ComponentLook, Look
from pd_tracer_hooks.digest.backend import Pool
from pd_tracer_hooks.digest.cpu import CpuBackend
from pd_tracer_hooks.identity import describe_worker
from pd_tracer_hooks.layout import PageLayout
from pd_tracer_hooks.settings import Settings as HookSettings
from pd_tracer_hooks.wire import EventKind, Side, Stage
from tracer.settings import Settings

LAYOUT = PageLayout.plain(4, 16)
LAYERS = (0, 1)
PAGES = 40
#: Physical pages of decode, in transfer order. Pages 50 to 59 were the donor's before.
DONOR_PAGES, VICTIM_PAGES = list(range(20, 60)), [*range(50, 60), *range(100, 130)]


def content(room: str, layer: int, page: int) -> bytes:
    return f"{room}:{layer}:{page}".encode().ljust(LAYOUT.page_bytes, b".")


class Memory:
    """A worker's pool: bytes that the test writes."""

    def __init__(self) -> None:
        self.buffers = {layer: bytearray(200 * LAYOUT.page_bytes) for layer in LAYERS}
        self.pool = Pool("kv", LAYOUT, self.buffers)

    def write(self, layer: int, at: int, data: bytes) -> None:
        self.buffers[layer][at * LAYOUT.page_bytes : at * LAYOUT.page_bytes + len(data)] = data

    def fill(self, room: str, pages: list[int]) -> None:
        for layer in LAYERS:
            for ordinal, page in enumerate(pages):
                self.write(layer, page, content(room, layer, ordinal))


class Pair:
    """A prefill and a decode worker that trace real bytes."""

    def __init__(self, server: Server, **changes: Any) -> None:
        self.sent, self.arrived = Memory(), Memory()
        self.server = server
        self.prefill = self._agent(Side.prefill, self.sent, changes)
        self.decode = self._agent(Side.decode, self.arrived, changes)

    def _agent(self, side: Side, memory: Memory, changes: dict[str, Any]) -> Agent:
        settings = HookSettings(
            url=self.server.url,
            deployment="llama",
            server=side.value,
            coverage="full",
            flush_ms=5.0,
            heartbeat_s=0.1,
            **changes,
        )
        agent = Agent(settings, describe_worker(settings, side=side), backend=CpuBackend())
        agent.manifest([memory.pool])
        return agent

    def transfer(self, room: str, pages: list[int], spoil: Callable[[Memory], None] = lambda _: None) -> None:
        """``room`` lies in prefill's first pages, and goes to decode's ``pages``."""
        key = [f"{abs(hash(room)) & 0xFFFFFFFF:016x}"]
        here = list(range(len(pages)))
        self.sent.fill(room, here)
        self.decode.event(EventKind.opened, room, keys=key, peer="prefill")
        self._look(self.prefill, self.sent, room, key, Stage.send, here)
        self.arrived.fill(room, pages)
        spoil(self.arrived)
        self._look(self.decode, self.arrived, room, key, Stage.receive, pages)
        self.decode.event(EventKind.freed, room, keys=key)
        until(lambda: self.server.verdict(room) not in (None, "pending"))

    @staticmethod
    def _look(
        agent: Agent, memory: Memory, room: str, key: list[str], stage: Stage, pages: list[int]
    ) -> None:
        part = ComponentLook(pool=memory.pool, pages=pages, total_pages=len(pages))
        agent.observe(Look(room=room, keys=key, stage=stage, components=[part]))

    def component(self, room: str) -> dict[str, Any]:
        answer: dict[str, Any] = self.server.http.get(f"/rooms/{room}").json()
        component: dict[str, Any] = answer["components"][0]
        return component


@contextmanager
def pair_of(server: Server, **changes: Any) -> Iterator[Pair]:
    pair = Pair(server, **changes)
    yield pair
    assert pair.prefill.close(5)
    assert pair.decode.close(5)


def until(condition: Callable[[], bool], seconds: float = 10.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it did not come about"
        time.sleep(0.02)


def late_write(memory: Memory) -> None:
    """The donor's page 33 is written once more, after its physical page 53 went to the victim."""
    for layer in LAYERS:
        memory.write(layer, 53, content("donor", layer, 33))


def flip(memory: Memory) -> None:
    memory.buffers[1][53 * LAYOUT.page_bytes + 3] ^= 1


def donors(pair: Pair) -> list[tuple[str, str]]:
    return [(donor["room"], donor["how"]) for donor in pair.component("victim").get("donors", [])]


def test_a_donor_is_named_by_its_digests(server: Server) -> None:
    with pair_of(server) as pair:
        pair.transfer("before", list(range(60, 100)))
        pair.transfer("donor", DONOR_PAGES)
        pair.transfer("victim", VICTIM_PAGES, late_write)
        until(lambda: pair.component("victim")["cause"] == "cross_room")
        (donor,) = pair.component("victim")["donors"]
        assert (donor["room"], donor["how"]) == ("donor", "digests")
        assert donor["page_runs"] == [[3, 1]]
        assert server.verdict("donor") == "match"


def test_an_aborted_room_whose_write_lands_late(server: Server) -> None:
    """It was never received: its pages are known from ``allocate``."""
    with pair_of(server) as pair:
        key = ["a" * 16]
        here = list(range(PAGES))
        pair.sent.fill("donor", here)
        pair.decode.event(EventKind.opened, "donor", keys=key, peer="prefill")
        pair._look(pair.decode, pair.arrived, "donor", key, Stage.allocate, DONOR_PAGES)
        pair._look(pair.prefill, pair.sent, "donor", key, Stage.send, here)
        pair.decode.event(EventKind.aborted, "donor", keys=key)
        pair.decode.event(EventKind.freed, "donor", keys=key)
        until(lambda: server.verdict("donor") == "aborted")
        pair.transfer("victim", VICTIM_PAGES, late_write)
        until(lambda: donors(pair) == [("donor", "digests")])
        assert pair.component("victim")["cause"] == "cross_room"


def test_who_only_held_the_pages_is_said_so(server: Server) -> None:
    """The workers' journals keep nothing: nobody can say what was in the donor's pages."""
    with pair_of(server, journal_bytes=0) as pair:
        pair.transfer("donor", DONOR_PAGES)
        pair.transfer("victim", VICTIM_PAGES, late_write)
        until(lambda: server.sql("SELECT count(*) FROM wants WHERE kind = 'detail'")[0][0] == 0)
        assert donors(pair) == [("donor", "held")]
        assert pair.component("victim")["cause"] == "unexplained"


def test_a_room_whose_bytes_are_not_there_is_cleared(server: Server) -> None:
    with pair_of(server) as pair:
        pair.transfer("donor", DONOR_PAGES)
        pair.transfer("victim", VICTIM_PAGES, flip)
        until(lambda: server.sql("SELECT count(*) FROM wants WHERE kind = 'detail'")[0][0] == 0)
        until(lambda: donors(pair) == [])
        assert pair.component("victim")["where"]["layers"] == [1]


def test_rooms_with_other_pages_are_not_asked(server: Server) -> None:
    with pair_of(server) as pair:
        pair.transfer("far", list(range(140, 180)))
        pair.transfer("victim", VICTIM_PAGES, flip)
        assert server.sql("SELECT count(*) FROM donor_asks")[0][0] == 0


def test_without_holdings_nobody_is_named(settings: Settings) -> None:
    with serve(settings.model_copy(update={"holdings_s": 0.0})) as server, pair_of(server) as pair:
        pair.transfer("donor", DONOR_PAGES)
        pair.transfer("victim", VICTIM_PAGES, late_write)
        assert donors(pair) == []
        assert server.sql("SELECT count(*) FROM holdings")[0][0] == 0


def test_holdings_outlive_a_restart_and_are_pruned(settings: Settings) -> None:
    with serve(settings) as server, pair_of(server) as pair:
        pair.transfer("donor", DONOR_PAGES)
        until(lambda: server.sql("SELECT room FROM holdings") == [("donor",)])
    with serve(settings) as server:
        assert server.sql("SELECT room FROM holdings") == [("donor",)]
        with server.collector.database.write.begin() as connection:
            connection.execute(text("UPDATE holdings SET received = received - 7200"))
    with serve(settings) as server, pair_of(server) as pair:
        pair.transfer("other", DONOR_PAGES)
        until(lambda: server.sql("SELECT room FROM holdings") == [("other",)])
