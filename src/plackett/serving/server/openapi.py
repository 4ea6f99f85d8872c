"""The OpenAPI description of a server, generated from its routes and the types of their bodies."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

import msgspec

from plackett._version import __version__
from plackett.serving.server.http import BYTES, JSON, PROBLEM, AccessLevel
from plackett.serving.server.requests import SIZES_HEADER, SIZES_PATTERN
from plackett.serving.server.schemas import BatchRequest, ListRequest, Problem
from plackett.serving.server.settings import Settings

Handler = TypeVar("Handler", bound=Callable[..., Any])

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
    """Name of the handler, without ``handle_``."""
    summary: str
    returns: tuple[Any, ...] = ()
    """Types of the response; any of them may be returned."""
    media_types: tuple[str, ...] = (JSON,)
    """Media types of the response."""
    method: str = "GET"
    access: AccessLevel = "token"
    errors: tuple[int, ...] = ()
    is_described: bool = True

    @property
    def takes_lists(self) -> bool:
        """Whether the body of the request has lists of documents."""
        return self.action in ("rank", "explain")


def operation(*paths: str, **options: Any) -> Callable[[Handler], Handler]:
    """Make a method ``handle_<action>`` answer requests of these paths; its docstring is the summary.

    Options are fields of :class:`Operation`.
    """

    def decorate(handler: Handler) -> Handler:
        action = handler.__name__.removeprefix("handle_")
        summary = (handler.__doc__ or "").rstrip(".")
        operations = [Operation(path, action, summary, **options) for path in paths]
        handler.operations = operations  # type: ignore[attr-defined]
        return handler

    return decorate


def list_operations(app: type) -> tuple[Operation, ...]:
    """The operations of all decorated methods of a class."""
    handlers = vars(app).values()
    return tuple(op for handler in handlers for op in getattr(handler, "operations", ()))


def describe(routes: tuple[Operation, ...], settings: Settings) -> dict[str, Any]:
    """OpenAPI 3.1 of a server with these routes and settings."""
    types = {ListRequest, BatchRequest, Problem, *(kind for route in routes for kind in route.returns)}
    ordered = sorted(types, key=lambda kind: kind.__name__)
    _, schemas = msgspec.json.schema_components(ordered, ref_template=_REF)
    for name in ("ListRequest", "BatchItem"):
        schemas[name]["properties"]["documents"]["maxItems"] = settings.limits.documents
    schemas["BatchRequest"]["properties"]["lists"]["maxItems"] = settings.limits.lists
    components: dict[str, Any] = {"schemas": schemas}
    if settings.token is not None:
        components["securitySchemes"] = {"token": {"type": "http", "scheme": "bearer"}}
    paths = {
        route.path: {route.method.lower(): _describe_route(route, has_token=settings.token is not None)}
        for route in routes
        if route.is_described
    }
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


def _describe_route(route: Operation, *, has_token: bool) -> dict[str, Any]:
    names = [name for name in ("model", "version") if f"{{{name}}}" in route.path]
    is_protected = route.access == "admin" or (route.access == "token" and has_token)
    errors = {403, 405, *route.errors, *([401] if is_protected else []), *([404] if names else [])}
    problem = {PROBLEM: {"schema": _any_of(Problem)}}
    content = _response_content(route)
    responses = {
        str(status): {"description": _REASONS[status], "content": content if status == 409 else problem}
        for status in sorted(errors)
    }
    responses["200"] = {"description": route.summary, "content": content}
    described: dict[str, Any] = {
        "operationId": "_".join([route.action, *names[-1:]]),
        "summary": route.summary,
        "parameters": [{"name": name, "in": "path", "required": True, "schema": {"type": "string"}} for name in names],
        "responses": responses,
    }
    if is_protected:
        described["security"] = [{"token": []}] if has_token else []
    if route.takes_lists:
        described["requestBody"] = _REQUEST_BODY
        described["parameters"].append(_SIZES_PARAMETER)
    return described


def _any_of(*kinds: type) -> dict[str, Any]:
    references = [{"$ref": _REF.format(name=kind.__name__)} for kind in kinds]
    return references[0] if len(references) == 1 else {"anyOf": references}


def _response_content(route: Operation) -> dict[str, Any]:
    schemas = {
        JSON: _any_of(*route.returns) if route.returns else {"type": "object"},
        BYTES: _binary(f"scores, float64, little-endian (Accept: {BYTES})"),
    }
    return {media_type: {"schema": schemas.get(media_type, {"type": "string"})} for media_type in route.media_types}


def _binary(description: str) -> dict[str, Any]:
    return {"type": "string", "format": "binary", "description": description}


_REQUEST_BODY = {
    "required": True,
    "content": {
        JSON: {"schema": _any_of(ListRequest, BatchRequest)},
        BYTES: {"schema": _binary("float32, little-endian, document after document")},
    },
}
_SIZES_PARAMETER = {
    "name": SIZES_HEADER,
    "in": "header",
    "description": f"For {BYTES}: the number of documents of each list. [all are one]",
    "schema": {"type": "string", "pattern": f"^{SIZES_PATTERN}$"},
}
