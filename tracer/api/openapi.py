"""The ingest route in the OpenAPI document. Its structs are msgspec's, which FastAPI does not know."""

from __future__ import annotations

from typing import Annotated, Any, get_args, get_origin

import msgspec
from fastapi import FastAPI
from msgspec import Meta

from pd_tracer_hooks import wire
from pd_tracer_hooks.u64s import U64s
from pd_tracer_hooks.version import WIRE_VERSION

PATH = "/v1/reports"
_REF = "#/components/schemas/wire.{name}"

#: The smallest report that says something; docs/wire.md has whole ones.
EXAMPLE = {
    "wire": WIRE_VERSION,
    "worker": {"id": "decode-0", "boot": "b1", "deployment": "docs", "side": "decode", "server": "D0"},
    "events": [
        {"kind": "opened", "room": "4711", "keys": ["73bfee68b4452cf7"], "seq": 1, "at": 1764000000.0}
    ],
}


_Sums = Annotated[
    list[wire.Hex64],
    Meta(description="In msgpack bytes instead: little-endian unsigned 64-bit integers"),
]


def _swapped(kind: Any, swaps: dict[Any, Any]) -> Any:
    """A type with some of the types inside it replaced."""
    if kind in swaps:
        return swaps[kind]
    arguments = get_args(kind)
    if not arguments:
        return kind
    if get_origin(kind) is Annotated:
        return Annotated[_swapped(arguments[0], swaps), *kind.__metadata__]
    if get_origin(kind) is list:
        return list[_swapped(arguments[0], swaps)]  # type: ignore[misc]
    return kind


def _in_json(struct: type[msgspec.Struct], swaps: dict[Any, Any]) -> type[msgspec.Struct]:
    """``struct`` as JSON carries it: msgspec cannot describe packed sums and their defaults itself."""
    fields: list[Any] = []
    for field in msgspec.structs.fields(struct):
        kind = _swapped(field.type, swaps)
        if field.required:
            fields.append((field.name, kind))
        elif field.default is not msgspec.NODEFAULT:
            default = [] if isinstance(field.default, U64s) else field.default
            fields.append((field.name, kind, default))
        else:
            fields.append((field.name, kind, msgspec.field(default_factory=field.default_factory)))
    return msgspec.defstruct(struct.__name__, fields, kw_only=True, namespace={"__doc__": struct.__doc__})


def _components() -> tuple[list[dict[str, Any]], dict[str, Any]]:
    swaps: dict[Any, Any] = {U64s: _Sums}
    for struct in (wire.ComponentDigest, wire.Observation, wire.Detail, wire.Report):
        swaps[struct] = _in_json(struct, swaps)
    refs, named = msgspec.json.schema_components(
        (swaps[wire.Report], wire.Answer, wire.Problem), ref_template=_REF
    )
    return list(refs), {f"wire.{name}": schema for name, schema in named.items()}


def _content(schema: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {kind: {"schema": schema, **more} for kind in (wire.JSON, wire.MSGPACK)}


def _operation() -> dict[str, Any]:
    (report, answer, problem), _ = _components()
    either = {"anyOf": [answer, problem]}
    answers = {
        "200": ("Committed, but for what `refused` lists", answer),
        "400": ("The body is no msgpack or JSON", problem),
        "413": ("Larger than the collector takes: send halves", problem),
        "415": ("Another content type or encoding", problem),
        "422": ("The envelope is refused, or every record in it", either),
        "503": ("The queue is full or the database is away: send the same batch again later", problem),
    }
    responses: dict[str, Any] = {
        status: {"description": description, "content": _content(schema)}
        for status, (description, schema) in answers.items()
    }
    responses["503"]["headers"] = {
        "Retry-After": {"description": "Seconds to wait", "schema": {"type": "integer"}}
    }
    body = _content(report)
    body[wire.JSON]["example"] = EXAMPLE
    return {
        "tags": ["reports"],
        "summary": "Take a batch from a worker",
        "description": "Answered after the commit. Records are taken or refused one by one.",
        "operationId": "post_report",
        "requestBody": {"required": True, "content": body},
        "responses": responses,
    }


def describe_ingest(app: FastAPI) -> None:
    """Have the OpenAPI document of ``app`` describe ``POST /v1/reports`` too."""
    plain = app.openapi

    def openapi() -> dict[str, Any]:
        if app.openapi_schema is None:
            document = plain()
            document["paths"][PATH] = {"post": _operation()}
            document.setdefault("components", {}).setdefault("schemas", {}).update(_components()[1])
            app.openapi_schema = document
        return app.openapi_schema

    app.openapi = openapi  # type: ignore[method-assign]
