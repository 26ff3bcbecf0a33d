"""Keys, records, rooms, workers, aliases, manifests, pairs, roll-ups."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "aliases",
        sa.Column("deployment", sa.Text(), nullable=False),
        sa.Column("alias", sa.Text(), nullable=False),
        sa.Column("server", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("deployment", "alias"),
        # SQLite: one tree instead of a table and an index
        sqlite_with_rowid=False,
    )
    op.create_table(
        "manifests",
        sa.Column("deployment", sa.Text(), nullable=False),
        sa.Column("worker", sa.Text(), nullable=False),
        sa.Column("boot", sa.Text(), nullable=False),
        sa.Column("seq", sa.BigInteger(), nullable=False),
        sa.Column("received", sa.Float(), nullable=False),
        sa.Column("body", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("deployment", "worker", "boot"),
    )
    op.create_table(
        "pairs",
        sa.Column("deployment", sa.Text(), nullable=False),
        sa.Column("prefill_server", sa.Text(), nullable=False),
        sa.Column("decode_server", sa.Text(), nullable=False),
        sa.Column("component", sa.Text(), nullable=False),
        sa.Column("first_seen", sa.Float(), nullable=False),
        sa.PrimaryKeyConstraint("deployment", "prefill_server", "decode_server", "component"),
        # SQLite: one tree instead of a table and an index
        sqlite_with_rowid=False,
    )
    op.create_table(
        "records",
        sa.Column("day", sa.Integer(), nullable=False),
        sa.Column("deployment", sa.Text(), nullable=False),
        sa.Column("room", sa.Text(), nullable=False),
        sa.Column("transfer_key", sa.Text(), nullable=False),
        sa.Column("side", sa.Text(), nullable=False),
        sa.Column("stage", sa.Text(), nullable=False),
        sa.Column("look", sa.SmallInteger(), nullable=False),
        sa.Column("worker", sa.Text(), nullable=False),
        sa.Column("boot", sa.Text(), nullable=False),
        sa.Column("seq", sa.BigInteger(), nullable=False),
        sa.Column("server", sa.Text(), nullable=False),
        sa.Column("received", sa.Float(), nullable=False),
        sa.Column("body", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint(
            "day", "deployment", "room", "transfer_key", "side", "stage", "look", "worker", "boot", "seq"
        ),
    )
    op.create_table(
        "rollups",
        sa.Column("minute", sa.Integer(), nullable=False),
        sa.Column("deployment", sa.Text(), nullable=False),
        sa.Column("prefill_server", sa.Text(), nullable=False),
        sa.Column("decode_server", sa.Text(), nullable=False),
        sa.Column("component", sa.Text(), nullable=False),
        sa.Column("verdict", sa.Text(), nullable=False),
        sa.Column("replica", sa.Text(), nullable=False),
        sa.Column("count", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint(
            "minute", "deployment", "prefill_server", "decode_server", "component", "verdict", "replica"
        ),
        # SQLite: one tree instead of a table and an index
        sqlite_with_rowid=False,
    )
    op.create_table(
        "room_keys",
        sa.Column("deployment", sa.Text(), nullable=False),
        sa.Column("room", sa.Text(), nullable=False),
        sa.Column("transfer_key", sa.Text(), nullable=False),
        sa.Column("day", sa.Integer(), nullable=False),
        sa.Column("version", sa.BigInteger(), server_default="0", nullable=False),
        sa.PrimaryKeyConstraint("deployment", "room", "transfer_key"),
        # SQLite: one tree instead of a table and an index
        sqlite_with_rowid=False,
    )
    op.create_table(
        "rooms",
        sa.Column("day", sa.Integer(), nullable=False),
        sa.Column("deployment", sa.Text(), nullable=False),
        sa.Column("room", sa.Text(), nullable=False),
        sa.Column("verdict", sa.Text(), nullable=False),
        sa.Column("cause", sa.Text(), server_default="", nullable=False),
        sa.Column("coverage", sa.Text(), server_default="", nullable=False),
        sa.Column("worst_components", sa.Text(), server_default="", nullable=False),
        sa.Column("first_seen", sa.Float(), nullable=False),
        sa.Column("last_seen", sa.Float(), nullable=False),
        sa.Column("settled_at", sa.Float(), nullable=True),
        sa.Column("deadline", sa.Float(), nullable=True),
        sa.Column("prefill_server", sa.Text(), server_default="", nullable=False),
        sa.Column("decode_server", sa.Text(), server_default="", nullable=False),
        sa.Column("request_prefill", sa.Text(), server_default="", nullable=False),
        sa.Column("request_decode", sa.Text(), server_default="", nullable=False),
        sa.Column("trace", sa.Text(), server_default="", nullable=False),
        sa.Column("run", sa.Text(), server_default="", nullable=False),
        sa.Column("attempts", sa.Integer(), server_default="1", nullable=False),
        sa.Column("revisions", sa.Integer(), server_default="0", nullable=False),
        sa.Column("body", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("day", "deployment", "room"),
    )
    op.create_index(
        "ix_rooms_bad",
        "rooms",
        ["last_seen", "deployment", "room", "verdict"],
        unique=False,
        sqlite_where=sa.text("verdict NOT IN ('match', 'pending')"),
        postgresql_where=sa.text("verdict NOT IN ('match', 'pending')"),
    )
    op.create_index(
        "ix_rooms_deadline",
        "rooms",
        ["deadline"],
        unique=False,
        sqlite_where=sa.text("deadline IS NOT NULL"),
        postgresql_where=sa.text("deadline IS NOT NULL"),
    )
    op.create_index(
        "ix_rooms_pending",
        "rooms",
        ["first_seen"],
        unique=False,
        sqlite_where=sa.text("verdict = 'pending'"),
        postgresql_where=sa.text("verdict = 'pending'"),
    )
    op.create_index("ix_rooms_recent", "rooms", ["last_seen", "deployment", "room"], unique=False)
    op.create_index(
        "ix_rooms_request_decode",
        "rooms",
        ["request_decode"],
        unique=False,
        sqlite_where=sa.text("request_decode <> ''"),
        postgresql_where=sa.text("request_decode <> ''"),
    )
    op.create_index(
        "ix_rooms_request_prefill",
        "rooms",
        ["request_prefill"],
        unique=False,
        sqlite_where=sa.text("request_prefill <> ''"),
        postgresql_where=sa.text("request_prefill <> ''"),
    )
    op.create_index("ix_rooms_room", "rooms", ["room"], unique=False)
    op.create_index(
        "ix_rooms_trace",
        "rooms",
        ["trace"],
        unique=False,
        sqlite_where=sa.text("trace <> ''"),
        postgresql_where=sa.text("trace <> ''"),
    )
    op.create_table(
        "workers",
        sa.Column("deployment", sa.Text(), nullable=False),
        sa.Column("worker", sa.Text(), nullable=False),
        sa.Column("boot", sa.Text(), nullable=False),
        sa.Column("side", sa.Text(), nullable=False),
        sa.Column("server", sa.Text(), nullable=False),
        sa.Column("node", sa.Text(), server_default="", nullable=False),
        sa.Column("run", sa.Text(), server_default="", nullable=False),
        sa.Column("first_seen", sa.Float(), nullable=False),
        sa.Column("last_seen", sa.Float(), nullable=False),
        sa.Column("body", sa.Text(), nullable=False),
        sa.Column("heartbeat", sa.Text(), server_default="", nullable=False),
        sa.Column("drops", sa.Text(), server_default="{}", nullable=False),
        sa.PrimaryKeyConstraint("deployment", "worker"),
    )


def downgrade() -> None:
    op.drop_table("workers")
    op.drop_table("rooms")
    op.drop_table("room_keys")
    op.drop_table("rollups")
    op.drop_table("records")
    op.drop_table("pairs")
    op.drop_table("manifests")
    op.drop_table("aliases")
