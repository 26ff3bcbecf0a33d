"""A room as OpenAPI shows one."""

from __future__ import annotations

from typing import Any

_COMPONENT: dict[str, Any] = {
    "component": "index_k",
    "verdict": "mismatch",
    "cause": "unexplained",
    "reason": "head and tail differ, page 0 of 2",
    "coverage": "full",
    "layers": [3, 7],
    "layers_of": 2,
    "prefill": {
        "pages": 2,
        "complete": True,
        "signature": "cfd893a7291743bc",
        "finals": dict.fromkeys(("head", "tail", "body"), "4328b020a12c9f73"),
    },
    "decode": {
        "pages": 2,
        "complete": True,
        "signature": "cfd893a7291743bc",
        "finals": dict.fromkeys(("head", "tail", "body"), "22b0f5ed57b795e9"),
    },
    "where": {
        "regions": ["head", "tail", "body"],
        "layers": [7],
        "page_runs": [[0, 1]],
        "cells": [{"layer": 7, "runs": [[0, 1]]}],
    },
    "shape": "one_cell",
    "evidence": {
        "unit": "cell",
        "units": 1,
        "causes": {"unexplained": 1},
        "comparisons": [{"look": "receive", "against": "send", "different": 1}],
        "missing": ["no allocate observation: stale cannot be told from corrupt"],
    },
}
ROOM: dict[str, Any] = {
    "room": "4711",
    "deployment": "docs",
    "verdict": "mismatch",
    "cause": "unexplained",
    "summary": "room 4711: index_k mismatch, layer 7, head and tail, page 0, pair P0→D0",
    "reason": "index_k: head and tail differ, page 0 of 2",
    "settled": True,
    "coverage": "full",
    "exonerated": False,
    "components": [_COMPONENT],
    "attempts": [
        {
            "number": 1,
            "verdict": "mismatch",
            "cause": "unexplained",
            "prefill_server": "P0",
            "decode_server": "D0",
            "request_prefill": "req-a",
            "request_decode": "req-b",
            "transfers": [
                {
                    "key": "73bfee68b4452cf7",
                    "verdict": "mismatch",
                    "cause": "unexplained",
                    "components": [_COMPONENT],
                    "prefill_workers": ["prefill-0"],
                    "decode_workers": ["decode-0"],
                }
            ],
        }
    ],
    "prefill_server": "P0",
    "decode_server": "D0",
    "workers": [
        {"worker": "prefill-0", "side": "prefill", "server": "P0", "node": "node-1"},
        {"worker": "decode-0", "side": "decode", "server": "D0", "node": "node-2"},
    ],
    "request_prefill": "req-a",
    "request_decode": "req-b",
    "trace": "",
    "run": "",
    "first_seen": 1764000000.01,
    "last_seen": 1764000000.11,
    "settled_at": 1764000000.11,
    "join_delay_s": 0.1,
    "revisions": 0,
    "map": [
        {
            "component": "index_k",
            "key": "73bfee68b4452cf7",
            "pages": 2,
            "exact": True,
            "grain": 1,
            "rows": [
                {"layers": [3], "runs": [[0, 2, "good"]]},
                {"layers": [7], "runs": [[0, 1, "bad"], [1, 1, "good"]]},
            ],
        }
    ],
    "neighbours": [
        {
            "room": "4710",
            "verdict": "match",
            "summary": "room 4710: index_k match in every page, pair P0→D0",
            "last_seen": 1763999999.86,
            "offset_s": -0.25,
        }
    ],
    "timeline": [
        {
            "kind": "observation",
            "stage": "receive",
            "side": "decode",
            "worker": "decode-0",
            "server": "D0",
            "boot": "b1",
            "seq": 1,
            "look": 0,
            "at": 1764000000.1,
            "received": 1764000000.11,
            "keys": ["73bfee68b4452cf7"],
            "request": "req-b",
            "tokens": 128,
            "components": [
                {
                    "name": "index_k",
                    "pages": 2,
                    "coverage": "full",
                    "layers": [3, 7],
                    "runs": [[0, 2]],
                    "last": True,
                    "owned": "yes",
                    "signature": "cfd893a7291743bc",
                    "sums": ["ba5985b221721111", "ba5985b221721111", "ba5985b221721111"],
                    "cells": [4, 4, 4],
                }
            ],
        }
    ],
    "timeline_truncated": False,
}
