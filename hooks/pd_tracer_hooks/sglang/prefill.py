"""The prefill side: what is handed to the transfer, and the same pages before they are given back."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from pd_tracer_hooks.keys import transfer_key
from pd_tracer_hooks.sglang.binding import Call
from pd_tracer_hooks.sglang.host_pages import as_pages, as_states
from pd_tracer_hooks.sglang.requests import Request, is_traced
from pd_tracer_hooks.sglang.rooms import Transfer
from pd_tracer_hooks.wire import EventKind, Stage

if TYPE_CHECKING:
    from pd_tracer_hooks.sglang.session import Session

#: Backends that wait for a chunk's event before they read its pages. Others are looked at twice.
WAITING_BACKENDS = frozenset({"mooncake", "mori", "ascend"})
#: Status values of the engine (KVPoll).
FAILED = 0


class Prefill:
    """Handlers of the prefill side. One a session."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._current = threading.local()

    def sending(self, call: Call, original: Callable[[], Any]) -> Any:
        """Around ``send_kv_chunk``: remember which request the chunk below belongs to."""
        self._current.request = call["req"]
        try:
            return original()
        finally:
            self._current.request = None

    def sender_ready(self, call: Call) -> None:
        """After a sender's ``init``: the engine's own count of the pages to come."""
        sender = call["self"]
        room = getattr(sender, "bootstrap_room", None)
        if room is None or not self._session.traces(room):
            return
        # Chunks may not begin before this, so a remembered transfer of the room is an earlier one.
        transfer = self._session.rooms.begin(Transfer(str(room), total=int(call["num_kv_indices"])))
        self._describe(transfer, sender.kv_mgr, room)
        self._session.event(EventKind.started, transfer)

    def send(self, call: Call) -> None:
        """Before ``add_transfer_request``: the pages that the transfer takes."""
        manager, room = call["self"], call["bootstrap_room"]
        if not self._session.traces(room) or not self._will_send(manager, room):
            return
        transfer = self._session.rooms.obtain(room)
        request = self._request(room)
        if request is not None and not is_traced(request):
            return
        self._describe(transfer, manager, room)
        last = bool(call["is_last_chunk"])
        self._learn_length(transfer, request, call.get("num_kv_tokens"), last)
        chunk = _Chunk(call["kv_indices"], call["index_slice"], call.get("state_indices"), last)
        events = [event for event in (call.get("indices_event"),) if event is not None]
        early = call.get("wait_event")
        if early is None:
            self._session.later.when(events, lambda: self._observe(transfer, chunk))
        elif self._session.backend in WAITING_BACKENDS:
            self._session.later.when([*events, early], lambda: self._observe(transfer, chunk))
        else:
            # The transfer does not wait for the forward that fills these pages, so neither does the
            # first look; the second says what the pages came to hold.
            self._session.later.when(events, lambda: self._observe(transfer, chunk))
            self._session.later.when([*events, early], lambda: self._observe(transfer, chunk, look=1))

    def sender_aborted(self, call: Call) -> None:
        """Before a sender's ``abort``, which goes on to mark the transfer failed."""
        self._session.ended(call["self"].bootstrap_room, EventKind.aborted, "sender aborted")

    def retracted(self, call: Call) -> None:
        """Before an optimistic prefill gives its pages back to be computed again."""
        transfer = self._session.rooms.get(Request(call["req"]).room)
        if transfer is not None:
            self._session.event(EventKind.retracted, transfer, "released and queued again")
            self._session.rooms.end(transfer)

    def released(self, call: Call) -> None:
        """Before ``release_kv_cache``: the pages as they are when the transfer is over."""
        transfer = self._session.rooms.get(Request(call["req"]).room)
        if transfer is None:
            return
        if transfer.complete and not transfer.ended:
            self._session.observe_whole(transfer, Stage.release)
        self._session.rooms.end(transfer)

    def _observe(self, transfer: Transfer, chunk: _Chunk, look: int = 0) -> None:
        pages = as_pages(chunk.indices)
        states = as_states(chunk.states)
        if look == 0:
            transfer.pages.extend(pages)
            if chunk.last:
                transfer.states = states
        self._session.observe_part(
            transfer,
            Stage.send,
            pages,
            states,
            first=_ordinals(chunk.place, len(pages)),
            last=chunk.last,
            look=look,
        )
        if look == 0 and chunk.last:
            transfer.complete = True

    def _describe(self, transfer: Transfer, manager: Any, room: Any) -> None:
        """Fill in what decode asked for: the transfer's keys, its peer and the prefix it holds."""
        if transfer.keys:
            return
        infos = getattr(manager, "transfer_infos", {}).get(room, {})
        for session, info in list(infos.items()):
            if getattr(info, "is_dummy", False):
                continue
            prefix = int(getattr(info, "decode_prefix_len", None) or 0)
            transfer.prefix = prefix
            transfer.peer = transfer.peer or str(session)
            transfer.keys.append(
                transfer_key(
                    session=str(session),
                    pages=info.dst_kv_indices,
                    prefix_pages=prefix // self._session.page_size,
                    aux_index=int(info.dst_aux_index or 0),
                )
            )

    def _request(self, room: Any) -> Request | None:
        current = getattr(self._current, "request", None)
        request = Request(current) if current is not None else None
        return request if request is not None and request.room == str(room) else None

    def _learn_length(self, transfer: Transfer, request: Request | None, tokens: Any, last: bool) -> None:
        if tokens is not None:
            transfer.sent_tokens += int(tokens)
        if request is not None:
            transfer.request = request.id
            transfer.seq_len = request.prompt_tokens
            self._session.learn_alias(request.bootstrap)
            if transfer.total is None:
                transfer.total = request.sender_pages
        elif last and tokens is not None and transfer.seq_len is None:
            transfer.seq_len = transfer.prefix + transfer.sent_tokens

    @staticmethod
    def _will_send(manager: Any, room: Any) -> bool:
        """Whether the manager will take the chunk: a dummy rank or a failed room sends nothing."""
        if room not in getattr(manager, "transfer_infos", {}):
            return False
        status = getattr(manager, "request_status", {})
        return room in status and manager.check_status(room) != FAILED


class _Chunk:
    """One call's page lists, held until they may be read."""

    __slots__ = ("indices", "last", "place", "states")

    def __init__(self, indices: Any, place: Any, states: Any, last: bool) -> None:
        self.indices = indices
        self.place = place
        self.states = states
        self.last = last


def _ordinals(place: Any, count: int) -> int | Sequence[int]:
    """Ordinals of a chunk's pages: the first of a run, or one for each page where they are scattered."""
    if isinstance(place, slice):
        return int(place.start or 0)
    return as_pages(place)[:count]
