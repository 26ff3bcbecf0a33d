"""The tables, as SQLAlchemy Core sees them. The Alembic migrations make them.

Times are seconds since the epoch (float) by the collector's clock unless a column says otherwise; a day
is a whole number of days since the epoch (UTC). Rooms and keys are text, since an unsigned 64-bit
number fits neither SQLite nor JavaScript. Every key carries the deployment: rooms are unique only
within one.
"""

from __future__ import annotations

from sqlalchemy import (
    BigInteger,
    Column,
    Float,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    PrimaryKeyConstraint,
    SmallInteger,
    Table,
    Text,
    text,
)

metadata = MetaData()


def _text(name: str) -> Column[str]:
    return Column(name, Text, nullable=False, server_default="")


#: One row for each transfer key of a room, and one under the empty key for the room itself. Upserted
#: first in every flush, sorted: that takes the room's lock, gives the day on which it was first seen,
#: and counts its versions, so that a cached state of the room is known to be current or stale.
room_keys = Table(
    "room_keys",
    metadata,
    Column("deployment", Text, nullable=False),
    Column("room", Text, nullable=False),
    Column("transfer_key", Text, nullable=False),
    Column("day", Integer, nullable=False),
    Column("version", BigInteger, nullable=False, server_default="0"),
    PrimaryKeyConstraint("deployment", "room", "transfer_key"),
    sqlite_with_rowid=False,
)

#: Observations and events as they came, append-only: the evidence. The primary key is the record's
#: natural key, which is what makes a repeated report count once. ``stage`` is an observation's stage or,
#: for an event, ``event:<kind>``. ``body`` is the record in msgpack.
records = Table(
    "records",
    metadata,
    Column("day", Integer, nullable=False),
    Column("deployment", Text, nullable=False),
    Column("room", Text, nullable=False),
    Column("transfer_key", Text, nullable=False),
    Column("side", Text, nullable=False),
    Column("stage", Text, nullable=False),
    Column("look", SmallInteger, nullable=False),
    Column("worker", Text, nullable=False),
    Column("boot", Text, nullable=False),
    Column("seq", BigInteger, nullable=False),
    Column("server", Text, nullable=False),
    Column("received", Float, nullable=False),
    Column("body", LargeBinary, nullable=False),
    PrimaryKeyConstraint(
        "day", "deployment", "room", "transfer_key", "side", "stage", "look", "worker", "boot", "seq"
    ),
)

#: One row a room: its verdict, what lists filter by, and the whole verdict in msgpack (``body``).
#: ``worst_components`` holds the names of the components with the room's verdict, each between commas
#: (``,index_k,kv,``), so that a filter is one LIKE.
rooms = Table(
    "rooms",
    metadata,
    Column("day", Integer, nullable=False),
    Column("deployment", Text, nullable=False),
    Column("room", Text, nullable=False),
    Column("verdict", Text, nullable=False),
    _text("cause"),
    _text("coverage"),
    _text("worst_components"),
    Column("first_seen", Float, nullable=False),
    Column("last_seen", Float, nullable=False),
    #: When the latest attempt first had a verdict other than pending, or null. Stays if it is pending again.
    Column("settled_at", Float),
    #: When time alone changes the verdict, or null.
    Column("deadline", Float),
    _text("prefill_server"),
    _text("decode_server"),
    _text("request_prefill"),
    _text("request_decode"),
    _text("trace"),
    _text("run"),
    Column("attempts", Integer, nullable=False, server_default="1"),
    Column("revisions", Integer, nullable=False, server_default="0"),
    Column("body", LargeBinary, nullable=False),
    PrimaryKeyConstraint("day", "deployment", "room"),
    Index("ix_rooms_room", "room"),
    Index("ix_rooms_recent", "last_seen", "deployment", "room"),
    Index(
        "ix_rooms_deadline",
        "deadline",
        sqlite_where=text("deadline IS NOT NULL"),
        postgresql_where=text("deadline IS NOT NULL"),
    ),
    Index(
        "ix_rooms_pending",
        "first_seen",
        sqlite_where=text("verdict = 'pending'"),
        postgresql_where=text("verdict = 'pending'"),
    ),
    Index(
        "ix_rooms_bad",
        # In the order of a list, with what it is filtered by: a page of it reads nothing else.
        "last_seen",
        "deployment",
        "room",
        "verdict",
        sqlite_where=text("verdict NOT IN ('match', 'pending')"),
        postgresql_where=text("verdict NOT IN ('match', 'pending')"),
    ),
    Index(
        "ix_rooms_request_prefill",
        "request_prefill",
        sqlite_where=text("request_prefill <> ''"),
        postgresql_where=text("request_prefill <> ''"),
    ),
    Index(
        "ix_rooms_request_decode",
        "request_decode",
        sqlite_where=text("request_decode <> ''"),
        postgresql_where=text("request_decode <> ''"),
    ),
    Index(
        "ix_rooms_trace",
        "trace",
        sqlite_where=text("trace <> ''"),
        postgresql_where=text("trace <> ''"),
    ),
)

#: One row a worker (rank): its latest boot. ``body`` is the wire's ``Worker`` in JSON, ``heartbeat`` its
#: latest ``Heartbeat`` in JSON (empty: none yet), ``drops`` the cumulative drops of this boot in JSON.
workers = Table(
    "workers",
    metadata,
    Column("deployment", Text, nullable=False),
    Column("worker", Text, nullable=False),
    Column("boot", Text, nullable=False),
    Column("side", Text, nullable=False),
    Column("server", Text, nullable=False),
    _text("node"),
    _text("run"),
    Column("first_seen", Float, nullable=False),
    Column("last_seen", Float, nullable=False),
    Column("body", Text, nullable=False),
    _text("heartbeat"),
    Column("drops", Text, nullable=False, server_default="{}"),
    PrimaryKeyConstraint("deployment", "worker"),
)

#: What peers call a server.
aliases = Table(
    "aliases",
    metadata,
    Column("deployment", Text, nullable=False),
    Column("alias", Text, nullable=False),
    Column("server", Text, nullable=False),
    PrimaryKeyConstraint("deployment", "alias"),
    sqlite_with_rowid=False,
)

#: The latest manifest of each boot of a worker. ``body`` is the wire's ``Manifest`` in msgpack.
manifests = Table(
    "manifests",
    metadata,
    Column("deployment", Text, nullable=False),
    Column("worker", Text, nullable=False),
    Column("boot", Text, nullable=False),
    Column("seq", BigInteger, nullable=False),
    Column("received", Float, nullable=False),
    Column("body", LargeBinary, nullable=False),
    PrimaryKeyConstraint("deployment", "worker", "boot"),
)

#: Every pair that was ever seen, so that its series exist at 0 before the first mismatch, also after a
#: restart.
pairs = Table(
    "pairs",
    metadata,
    Column("deployment", Text, nullable=False),
    Column("prefill_server", Text, nullable=False),
    Column("decode_server", Text, nullable=False),
    Column("component", Text, nullable=False),
    Column("first_seen", Float, nullable=False),
    PrimaryKeyConstraint("deployment", "prefill_server", "decode_server", "component"),
    sqlite_with_rowid=False,
)

#: Verdicts by minute, as signed changes: a revision takes one away and adds another in the minute in
#: which it came. ``component`` is empty for the room's own verdict. A row belongs to one replica, so
#: replicas never wait for each other; readers sum over them.
rollups = Table(
    "rollups",
    metadata,
    Column("minute", Integer, nullable=False),
    Column("deployment", Text, nullable=False),
    Column("prefill_server", Text, nullable=False),
    Column("decode_server", Text, nullable=False),
    Column("component", Text, nullable=False),
    Column("verdict", Text, nullable=False),
    Column("replica", Text, nullable=False),
    Column("count", BigInteger, nullable=False),
    PrimaryKeyConstraint(
        "minute", "deployment", "prefill_server", "decode_server", "component", "verdict", "replica"
    ),
    sqlite_with_rowid=False,
)

#: What workers are asked for until it has come or expires. ``detail``: a room's page digests. ``deep``: all
#: stages and full coverage, for the workers of ``pair``; its ``room`` is empty.
wants = Table(
    "wants",
    metadata,
    Column("deployment", Text, nullable=False),
    Column("worker", Text, nullable=False),
    Column("kind", Text, nullable=False),
    Column("room", Text, nullable=False),
    _text("pair"),
    Column("created", Float, nullable=False),
    Column("expires", Float, nullable=False),
    PrimaryKeyConstraint("deployment", "worker", "kind", "room"),
    Index("ix_wants_expires", "expires"),
    sqlite_with_rowid=False,
)

#: Which physical pages of a decode worker a room had: one row an ``allocate`` or ``receive`` that names them.
#: A worker's rows lie in the order of its own count, so that the rooms before and after one are neighbours.
#: ``pages`` is msgpack: pairs of component names and runs, components of one page table together. ``day`` is
#: the room's in ``records``.
holdings = Table(
    "holdings",
    metadata,
    Column("deployment", Text, nullable=False),
    Column("worker", Text, nullable=False),
    Column("boot", Text, nullable=False),
    Column("seq", BigInteger, nullable=False),
    Column("day", Integer, nullable=False),
    Column("room", Text, nullable=False),
    Column("received", Float, nullable=False),
    Column("pages", LargeBinary, nullable=False),
    PrimaryKeyConstraint("deployment", "worker", "boot", "seq"),
    sqlite_with_rowid=False,
)

#: Rooms whose page digests were asked for because another room may hold their bytes: once they come, that
#: one is judged again.
donor_asks = Table(
    "donor_asks",
    metadata,
    Column("deployment", Text, nullable=False),
    Column("donor", Text, nullable=False),
    Column("victim", Text, nullable=False),
    Column("created", Float, nullable=False),
    PrimaryKeyConstraint("deployment", "donor", "victim"),
    sqlite_with_rowid=False,
)
