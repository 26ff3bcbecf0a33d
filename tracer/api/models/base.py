"""What every answer of the read side has in common, and how a problem looks."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict, Field


class Model(BaseModel):
    """Every answer is one of these: never changed once made."""

    model_config = ConfigDict(frozen=True)


class Problem(Model):
    """What is wrong, where, and the way out."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "error": "no room '4711' in deployment 'docs'",
                    "field": "room",
                    "hint": "GET /rooms lists what there is",
                }
            ]
        }
    )
    error: str
    field: str = Field("", description="The parameter or field concerned")
    hint: str = Field("", description="What to do about it")


class Choices(Problem):
    """A problem that is solved by naming one of some deployments."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "error": "2 deployments have a room '4711'",
                    "field": "deployment",
                    "hint": "say which: /rooms/4711?deployment=llama",
                    "deployments": ["llama", "qwen"],
                }
            ]
        }
    )
    deployments: list[str]


#: How FastAPI is told of errors: what a status means, in the one shape.
def problems(**by_status: str) -> dict[int | str, dict[str, Any]]:
    """``problems(s404="no such room")`` for a route's ``responses``."""
    return {
        int(status.removeprefix("s")): {"model": Problem, "description": description}
        for status, description in by_status.items()
    }
