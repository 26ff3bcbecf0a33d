"""What the databases do by themselves: rows a second, 1000 a transaction, with a unique key."""

from __future__ import annotations

import sqlite3
import time
from pathlib import Path

import psycopg

ROWS_A_TRANSACTION = 1000

_COLUMNS = "deployment, room, transfer_key, side, stage, look, worker, boot, seq, received, body"
_TABLE = """CREATE TABLE ceiling (
  deployment TEXT, room TEXT, transfer_key TEXT, side TEXT, stage TEXT, look INTEGER, worker TEXT, boot TEXT,
  seq {integer}, received {real}, body {blob},
  PRIMARY KEY (deployment, room, transfer_key, side, stage, look, worker, boot, seq))"""


def _rows(count: int, body_bytes: int, salt: int) -> list[tuple[object, ...]]:
    body = bytes(range(256)) * (body_bytes // 256) + bytes(body_bytes % 256)
    # A multiplier spreads the rooms over the tree, as random room ids do.
    return [
        (
            "bench",
            str((i * 0x9E3779B97F4A7C15 + salt) % (1 << 63)),
            f"{i:016x}",
            "prefill",
            "send",
            0,
            "worker-0",
            "boot-0",
            i,
            1.7e9,
            body,
        )
        for i in range(count)
    ]


def sqlite_rows_per_s(path: Path, count: int, body_bytes: int, salt: int) -> float:
    """Insert ``count`` rows into a new SQLite file: WAL, synchronous=FULL, a unique key."""
    rows = _rows(count, body_bytes, salt)
    connection = sqlite3.connect(path, isolation_level=None)
    try:
        connection.execute("PRAGMA journal_mode=WAL")
        connection.execute("PRAGMA synchronous=FULL")
        connection.execute("PRAGMA wal_autocheckpoint=20000")
        connection.execute(_TABLE.format(integer="INTEGER", real="REAL", blob="BLOB"))
        started = time.perf_counter()
        for at in range(0, count, ROWS_A_TRANSACTION):
            connection.execute("BEGIN IMMEDIATE")
            connection.executemany(
                f"INSERT INTO ceiling ({_COLUMNS}) VALUES (?,?,?,?,?,?,?,?,?,?,?)",
                rows[at : at + ROWS_A_TRANSACTION],
            )
            connection.execute("COMMIT")
        return count / (time.perf_counter() - started)
    finally:
        connection.close()


def postgres_rows_per_s(url: str, count: int, body_bytes: int, salt: int) -> float:
    """COPY ``count`` rows into a new PostgreSQL table with a primary key."""
    rows = _rows(count, body_bytes, salt)
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("DROP TABLE IF EXISTS ceiling")
        connection.execute(_TABLE.format(integer="BIGINT", real="DOUBLE PRECISION", blob="BYTEA"))
        started = time.perf_counter()
        for at in range(0, count, ROWS_A_TRANSACTION):
            with (
                connection.transaction(),
                connection.cursor() as cursor,
                cursor.copy(f"COPY ceiling ({_COLUMNS}) FROM STDIN") as copy,
            ):
                for row in rows[at : at + ROWS_A_TRANSACTION]:
                    copy.write_row(row)
        elapsed = time.perf_counter() - started
        connection.execute("DROP TABLE ceiling")
    return count / elapsed
