"""The decode side: pages handed out, arrival, the moments after it, and the last moment before first use."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from pd_tracer_hooks.keys import transfer_key
from pd_tracer_hooks.sglang.binding import Call
from pd_tracer_hooks.sglang.host_pages import as_pages, as_states
from pd_tracer_hooks.sglang.requests import Request, is_traced
from pd_tracer_hooks.sglang.rooms import Transfer
from pd_tracer_hooks.wire import EventKind, Stage

if TYPE_CHECKING:
    from pd_tracer_hooks.sglang.session import Session


class Decode:
    """Handlers of the decode side. One a session."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._current = threading.local()

    def allocating(self, call: Call) -> None:
        """Before pages are allocated for a request: the metadata that follows belongs to it."""
        self._current.request = call["req"]

    def opened(self, call: Call) -> None:
        """Before a receiver hands its pages to the prefill side."""
        receiver = call["self"]
        room = getattr(receiver, "bootstrap_room", None)
        if room is None or not self._session.traces(room):
            return
        request = self._request(room)
        if request is not None and not is_traced(request):
            return
        transfer = self._transfer(receiver, call)
        if request is not None:
            transfer.request = request.id
            transfer.seq_len = request.prompt_tokens
        transfer.claims.append(self._session.owners.claim(list(transfer.pages)))
        self._session.rooms.begin(transfer)
        if not transfer.pages and not any(transfer.states):
            self._session.event(EventKind.nothing_transferred, transfer, "decode holds the whole prefix")
            return
        self._session.event(EventKind.opened, transfer)
        if self._session.wants(Stage.allocate):
            self._session.observe_whole(transfer, Stage.allocate)

    def received(self, call: Call) -> None:
        """Before a finished transfer is committed to its request."""
        transfer, request = self._of(getattr(call["decode_req"], "req", None))
        if transfer is None or transfer.received:
            return
        transfer.received = True
        transfer.seq_len = request.prompt_tokens
        transfer.request = request.id
        self._session.observe_whole(transfer, Stage.receive, signalled_at=transfer.done_at or time.time())
        for look, delay in enumerate(self._session.recheck_after_s):
            self._session.later.after(delay, partial(self._recheck, transfer, look))

    def admitted(self, call: Call) -> None:
        """Before the first batch that a transferred request is in."""
        for req in getattr(call["self"], "reqs", ()):
            transfer, _ = self._of(req)
            if transfer is not None and transfer.received and not transfer.admitted:
                transfer.admitted = True
                self._session.observe_whole(transfer, Stage.admit)

    def receiver_aborted(self, call: Call) -> None:
        """Before a receiver's ``abort``, which goes on to mark the transfer failed."""
        self._session.ended(call["self"].bootstrap_room, EventKind.aborted, "receiver aborted")

    def released(self, call: Call) -> None:
        """Before ``release_kv_cache``: the pages are the room's no longer."""
        transfer, _ = self._of(call["req"])
        if transfer is not None:
            self._forget(transfer, "released")

    def retracting(self, call: Call, original: Callable[[], Any]) -> Any:
        """Around ``retract_decode``: requests that lost their place, and their pages with it."""
        before = {id(req): req for req in getattr(call["self"], "reqs", ())}
        known = [transfer for req in before.values() if (transfer := self._of(req)[0]) is not None]
        result = original()
        kept = {str(getattr(req, "bootstrap_room", "")) for req in getattr(call["self"], "reqs", ())}
        for transfer in known:
            if transfer.room not in kept:
                self._session.event(EventKind.retracted, transfer, "retracted for want of memory")
        return result

    def checksums(self, call: Call, original: Callable[[], Any]) -> Any:
        """Around the engine's own comparison of a request's checksum, where it is switched on.

        It drops the requests that differ from the batch. That comes before ``admit``, so what is known of
        such a room is what was seen at ``receive``.
        """
        batch = call["batch"]
        if getattr(call["self"], "kv_checksum_computer", None) is None:
            return original()
        expected = [(req, int(getattr(req, "expected_kv_checksum", 0) or 0)) for req in batch.reqs]
        result = original()
        kept = {id(req) for req in batch.reqs}
        for req, value in expected:
            transfer, _ = self._of(req)
            if transfer is not None and not transfer.checked:
                transfer.checked = True
                self._session.event(EventKind.checked, transfer, _checksum_result(value, id(req) in kept))
        return result

    def _recheck(self, transfer: Transfer, look: int) -> None:
        if not transfer.lost and not transfer.ended:
            self._session.observe_whole(transfer, Stage.recheck, look=look, settled_rows_only=True)

    def _forget(self, transfer: Transfer, reason: str) -> None:
        transfer.lost = True
        self._session.owners.freed(transfer.pages)
        self._session.event(EventKind.freed, transfer, reason)
        self._session.rooms.end(transfer)

    def _of(self, req: Any) -> tuple[Transfer | None, Request]:
        request = Request(req)
        transfer = self._session.rooms.get(request.room) if request.room else None
        return transfer, request

    def _request(self, room: Any) -> Request | None:
        current = getattr(self._current, "request", None)
        request = Request(current) if current is not None else None
        return request if request is not None and request.room == str(room) else None

    def _transfer(self, receiver: Any, call: Call) -> Transfer:
        pages = as_pages(call["kv_indices"])
        prefix = int(call.get("decode_prefix_len") or 0)
        key = transfer_key(
            session=self._session.transfer_name,
            pages=pages,
            prefix_pages=prefix // self._session.page_size,
            aux_index=int(call.get("aux_index") or 0),
        )
        return Transfer(
            str(receiver.bootstrap_room),
            keys=[key],
            peer=str(getattr(receiver, "bootstrap_addr", "") or ""),
            prefix=prefix,
            total=len(pages),
            pages=pages,
            states=as_states(call.get("state_indices")),
            complete=True,
        )


def _checksum_result(expected: int, kept: bool) -> str:
    if not kept:
        return "engine checksum: mismatch, the engine aborted the request"
    return "engine checksum: match" if expected else "engine checksum: skipped, prefill sent none to compare"
