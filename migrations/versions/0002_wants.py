"""What workers are asked for."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "wants",
        sa.Column("deployment", sa.Text(), nullable=False),
        sa.Column("worker", sa.Text(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("room", sa.Text(), nullable=False),
        sa.Column("pair", sa.Text(), server_default="", nullable=False),
        sa.Column("created", sa.Float(), nullable=False),
        sa.Column("expires", sa.Float(), nullable=False),
        sa.PrimaryKeyConstraint("deployment", "worker", "kind", "room"),
        # SQLite: one tree instead of a table and an index
        sqlite_with_rowid=False,
    )
    op.create_index("ix_wants_expires", "wants", ["expires"])


def downgrade() -> None:
    op.drop_table("wants")
