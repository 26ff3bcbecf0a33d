"""Who held which physical pages of a decode worker, and whose page digests may explain whose damage."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "donor_asks",
        sa.Column("deployment", sa.Text(), nullable=False),
        sa.Column("donor", sa.Text(), nullable=False),
        sa.Column("victim", sa.Text(), nullable=False),
        sa.Column("created", sa.Float(), nullable=False),
        sa.PrimaryKeyConstraint("deployment", "donor", "victim"),
        # SQLite: one tree instead of a table and an index
        sqlite_with_rowid=False,
    )
    op.create_table(
        "holdings",
        sa.Column("deployment", sa.Text(), nullable=False),
        sa.Column("worker", sa.Text(), nullable=False),
        sa.Column("boot", sa.Text(), nullable=False),
        sa.Column("seq", sa.BigInteger(), nullable=False),
        sa.Column("day", sa.Integer(), nullable=False),
        sa.Column("room", sa.Text(), nullable=False),
        sa.Column("received", sa.Float(), nullable=False),
        sa.Column("pages", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("deployment", "worker", "boot", "seq"),
        # SQLite: one tree instead of a table and an index
        sqlite_with_rowid=False,
    )


def downgrade() -> None:
    op.drop_table("holdings")
    op.drop_table("donor_asks")
