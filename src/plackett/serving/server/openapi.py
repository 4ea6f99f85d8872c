"""The OpenAPI description of a server, generated from its routes and the types of their bodies."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import msgspec

from plackett._version import __version__
from plackett.serving.server.http import BYTES, JSON, PROBLEM
from plackett.serving.server.requests import SIZES_HEADER
from plackett.serving.server.schemas import BatchRequest, ListRequest, Problem
from plackett.serving.server.settings import Limits, Settings

AccessLevel: TypeAlias = Literal["open", "token", "admin"]

_REASONS = {
    400: "The body is not what its content-type says",
    401: "The token is missing or wrong",
    403: "Not allowed without a token",
    404: "No such model or version",
    405: "Another method is needed",
    406: "Not available in the requested form",
    408: "The body came too slowly",
    409: "Some models could not be loaded; the old ones are still served",
    413: "More bytes, documents or lists than the server accepts",
    415: "Neither JSON nor bytes",
    422: "The documents do not fit the model",
    503: "Too many requests at a time, or the server is stopping",
    504: "No answer in time",
}
SCORING_ERRORS = (400, 404, 406, 408, 413, 415, 422, 503, 504)
_REF = "#/components/schemas/{name}"


@dataclass(frozen=True)
class Operation:
    """A route and what a client may send and receive there."""

    path: str
    action: str
    """``handle_<action>`` of :class:`~plackett.serving.server.app.App` answers."""
    summary: str
    responses: tuple[Any, ...] = ()
    """Types of the body; any of them may be returned."""
    media_types: tuple[str, ...] = (JSON,)
    """Media types of the response."""
    method: str = "GET"
    access: AccessLevel = "token"
    errors: tuple[int, ...] = ()
    takes_lists: bool = False
    """The body of the request has lists of documents."""


def describe(operations: tuple[Operation, ...], settings: Settings) -> dict[str, Any]:
    """OpenAPI 3.1 of a server with these operations and settings."""
    types = {kind for operation in operations for kind in operation.responses}
    types |= {ListRequest, BatchRequest, Problem}
    ordered = sorted(types, key=lambda kind: kind.__name__)
    _, schemas = msgspec.json.schema_components(ordered, ref_template=_REF)
    _add_limits(schemas, settings.limits)
    components: dict[str, Any] = {"schemas": schemas}
    if settings.token is not None:
        components["securitySchemes"] = {"token": {"type": "http", "scheme": "bearer"}}
    paths: dict[str, Any] = {}
    for operation in operations:
        described = _describe_operation(operation, has_token=settings.token is not None)
        paths[operation.path] = {operation.method.lower(): described}
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "plackett",
            "version": __version__,
            "summary": "Ranks lists of documents with learned models.",
        },
        "paths": paths,
        "components": components,
    }


def _add_limits(schemas: dict[str, Any], limits: Limits) -> None:
    for name in ("ListRequest", "BatchItem"):
        schemas[name]["properties"]["documents"]["maxItems"] = limits.documents
    schemas["BatchRequest"]["properties"]["lists"]["maxItems"] = limits.lists


def _describe_operation(operation: Operation, *, has_token: bool) -> dict[str, Any]:
    names = [name for name in ("model", "version") if f"{{{name}}}" in operation.path]
    errors = {403, 405, *operation.errors}
    is_protected = operation.access == "admin" or (operation.access == "token" and has_token)
    if is_protected:
        errors.add(401)
    if names:
        errors.add(404)
    problem = {PROBLEM: {"schema": _reference(Problem)}}
    content = _response_content(operation)
    responses = {
        str(status): {
            "description": _REASONS[status],
            "content": content if status == 409 else problem,
        }
        for status in sorted(errors)
    }
    responses["200"] = {"description": operation.summary, "content": content}
    described: dict[str, Any] = {
        "operationId": "_".join([operation.action, *names[-1:]]),
        "summary": operation.summary,
        "parameters": [
            {"name": name, "in": "path", "required": True, "schema": {"type": "string"}}
            for name in names
        ],
        "responses": responses,
    }
    if is_protected:
        described["security"] = [{"token": []}] if has_token else []
    if operation.takes_lists:
        described["requestBody"] = _REQUEST_BODY
        described["parameters"].append(_SIZES_PARAMETER)
    return described


def _reference(kind: type) -> dict[str, Any]:
    return {"$ref": _REF.format(name=kind.__name__)}


def _any_of(*kinds: type) -> dict[str, Any]:
    references = [_reference(kind) for kind in kinds]
    return references[0] if len(references) == 1 else {"anyOf": references}


def _response_content(operation: Operation) -> dict[str, Any]:
    content: dict[str, Any] = {}
    for media_type in operation.media_types:
        schema: dict[str, Any] = {"type": "object" if media_type == JSON else "string"}
        if media_type == JSON and operation.responses:
            schema = _any_of(*operation.responses)
        if media_type == BYTES:
            schema["format"] = "binary"
            schema["description"] = f"scores, float64, little-endian (Accept: {BYTES})"
        content[media_type] = {"schema": schema}
    return content


_REQUEST_BODY = {
    "required": True,
    "content": {
        JSON: {"schema": _any_of(ListRequest, BatchRequest)},
        BYTES: {
            "schema": {
                "type": "string",
                "format": "binary",
                "description": "float32, little-endian, document after document",
            }
        },
    },
}
_SIZES_PARAMETER = {
    "name": SIZES_HEADER,
    "in": "header",
    "description": f"For {BYTES}: the number of documents of each list. [all are one]",
    "schema": {"type": "string", "pattern": r"^[1-9]\d{0,8}(, ?[1-9]\d{0,8})*$"},
}
