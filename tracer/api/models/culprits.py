"""What the mismatches of a window have in common."""

from __future__ import annotations

from typing import Any

from pydantic import ConfigDict, Field

from tracer.api.models.base import Model

_PAIR: dict[str, Any] = {
    "kind": "pair",
    "value": "P1→D0",
    "mismatches": 37,
    "compared": 412,
    "ratio": 0.0898,
    "ratio_low": 0.0659,
    "ratio_high": 0.1213,
    "other_mismatches": 1,
    "other_compared": 9120,
    "other_ratio": 0.00011,
    "gap_low": 0.0658,
    "gap_high": 0.1212,
    "explained": 36.95,
    "stands_out": True,
    "twins": [{"kind": "prefill_nic", "value": "node-7:mlx5_1"}],
}


class Factor(Model):
    """Something that rooms have in common."""

    kind: str
    value: str


class Culprit(Factor):
    """How a factor's cases fared, against all others."""

    mismatches: int
    compared: int
    ratio: float
    ratio_low: float = Field(description="Lower bound of the 95 % interval (Wilson)")
    ratio_high: float
    other_mismatches: int
    other_compared: int
    other_ratio: float
    gap_low: float = Field(description="Lower bound of the ratios' difference, 95 % (Newcombe)")
    gap_high: float
    explained: float = Field(description="Mismatches beyond what the ratio outside would have given")
    stands_out: bool = Field(description="Whether the difference is more than chance")
    twins: list[Factor] = Field(description="Factors that hold the very same cases")


class Culprits(Model):
    """Factors ranked by how many mismatches they explain."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "window_s": 3600.0,
                    "since": 1763996400.0,
                    "deployment": "docs",
                    "summary": "pair P1→D0 has 37 of 38 mismatches: 8.98 % of its 412 rooms "
                    "(95 %: 6.59 % to 12.13 %), against 0.01 % of 9120 others; "
                    "the same rooms have prefill nic node-7:mlx5_1",
                    "mismatches": 38,
                    "compared": 9532,
                    "sampled": False,
                    "culprits": [_PAIR],
                    "components": [],
                }
            ]
        }
    )
    window_s: float
    since: float
    deployment: str | None
    summary: str = Field(description="The ranking in one sentence")
    mismatches: int
    compared: int
    sampled: bool = Field(description="Whether only the newest rooms of the window were read")
    culprits: list[Culprit] = Field(description="By rooms")
    components: list[Culprit] = Field(description="The component factor, by components instead of rooms")
