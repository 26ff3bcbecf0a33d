"""What a side remembers of the transfers in flight: page lists as they were handed over, never read again."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from pd_tracer_hooks.ownership import Claim
from pd_tracer_hooks.wire import Owned

#: Transfers remembered at once. The oldest are forgotten, and counted.
MAX_TRANSFERS = 8192


@dataclass
class Transfer:
    """One transfer as one side sees it."""

    room: str
    request: str = ""
    keys: list[str] = field(default_factory=list)
    peer: str = ""
    #: Tokens of the sequence that is handed over, the prefix included.
    seq_len: int | None = None
    #: Tokens that decode held already.
    prefix: int = 0
    #: P of the main page list, as this side counts.
    total: int | None = None
    #: Pages of the main list in order, and one list for each state (None: nothing of it is moved).
    pages: list[int] = field(default_factory=list)
    states: list[list[int] | None] = field(default_factory=list)
    #: Tokens sent so far, where no request says the sequence's length.
    sent_tokens: int = 0
    #: Some chunk was looked at before P was known.
    unsized: bool = False
    #: When the engine called the transfer done.
    done_at: float | None = None
    complete: bool = False
    received: bool = False
    admitted: bool = False
    checked: bool = False
    ended: bool = False
    #: The room gave its pages back.
    lost: bool = False
    #: Page lists that were the room's when it said so, in the order of the chunks.
    claims: list[Claim] = field(default_factory=list)

    def owned(self) -> Owned:
        """Whether the room has had its pages all the time since it claimed them."""
        if self.lost:
            return Owned.no
        answers = {claim.owned() for claim in self.claims}
        return Owned.no if Owned.no in answers else Owned.unknown if Owned.unknown in answers else Owned.yes


class Rooms:
    """Transfers by room, bounded. Safe for the engine's threads."""

    def __init__(self, on_drop: Callable[[str], None]) -> None:
        self._on_drop = on_drop
        self._lock = threading.Lock()
        self._transfers: OrderedDict[str, Transfer] = OrderedDict()

    def get(self, room: Any) -> Transfer | None:
        """The transfer of ``room``, if it is remembered."""
        return self._transfers.get(str(room))

    def begin(self, transfer: Transfer) -> Transfer:
        """Remember ``transfer``; it replaces an earlier one of the same room."""
        with self._lock:
            self._transfers.pop(transfer.room, None)
            self._transfers[transfer.room] = transfer
            while len(self._transfers) > MAX_TRANSFERS:
                self._transfers.popitem(last=False)
                self._on_drop("transfers_forgotten")
        return transfer

    def obtain(self, room: Any) -> Transfer:
        """The transfer of ``room``, begun if it is not remembered."""
        return self.get(room) or self.begin(Transfer(str(room)))

    def end(self, transfer: Transfer) -> None:
        """Forget ``transfer``, unless its room is another's by now."""
        with self._lock:
            if self._transfers.get(transfer.room) is transfer:
                del self._transfers[transfer.room]

    def live(self) -> Iterator[Transfer]:
        """A snapshot of the transfers in flight."""
        with self._lock:
            return iter(list(self._transfers.values()))


class OwnedAt:
    """Whether a transfer owned its pages at the moment of one look.

    The answer is asked for when the digest is picked up. A digest that was computed at once was done long
    before: :meth:`freeze` then keeps the answer of that moment, whatever is freed before the pick-up.
    """

    __slots__ = ("_frozen", "_transfer")

    def __init__(self, transfer: Transfer) -> None:
        self._transfer = transfer
        self._frozen: Owned | None = None

    def freeze(self) -> None:
        """The digest is done: what holds now is the answer."""
        self._frozen = self._transfer.owned()

    def __call__(self) -> Owned:
        """What :meth:`freeze` kept, else what holds now."""
        return self._frozen if self._frozen is not None else self._transfer.owned()
