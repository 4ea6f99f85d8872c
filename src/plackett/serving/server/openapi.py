"""The OpenAPI description of the server."""

from __future__ import annotations

from typing import Any

from plackett._version import __version__
from plackett.serving.server.http import BYTES, JSON, PROBLEM
from plackett.serving.server.routes import ROUTES, Route
from plackett.serving.server.schemas import SCHEMAS, lists_schema
from plackett.serving.server.settings import Settings

_SUMMARIES = {
    "rank": "Scores and order of lists of documents",
    "explain": "The same, and what each feature adds to each score",
    "models": "The models and their versions",
    "model": "One model: its features, by name and in their order",
    "examples": "Documents to try the model with",
    "reload": "Look for changed models now",
    "health": "The process answers",
    "ready": "Requests are welcome",
    "metrics": "Counts and times in the text format of Prometheus",
    "openapi": "This description",
    "page": "A page to try the models on",
}
_REASONS = {
    400: "The body is not what its content-type says",
    401: "The token is missing or wrong",
    403: "Not allowed without a token",
    404: "No such model or version",
    405: "Another method is needed",
    406: "Not available in the form that was asked for",
    408: "The body came too slowly",
    409: "Some models could not be loaded; those that were served still are",
    413: "More bytes, documents or lists than the server takes",
    415: "Neither JSON nor bytes",
    422: "The documents do not fit the model",
    503: "Too many requests at a time, or the server is stopping",
    504: "No answer in time",
}
_ASKED = (400, 404, 406, 408, 413, 415, 422, 503, 504)


def document(settings: Settings) -> dict[str, Any]:
    """OpenAPI 3.1 for a server with these settings."""
    paths = {
        route.template: {route.method.lower(): _operation(route, settings)} for route in ROUTES
    }
    schemas = SCHEMAS | {"Lists": lists_schema(settings.limits)}
    components: dict[str, Any] = {"schemas": schemas}
    if settings.token is not None:
        components["securitySchemes"] = {"token": {"type": "http", "scheme": "bearer"}}
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


def _operation(route: Route, settings: Settings) -> dict[str, Any]:
    place = "" if "{version}" in route.template else "_model" if "{model}" in route.template else ""
    place = "_version" if "{version}" in route.template else place
    found: dict[str, Any] = {
        "operationId": f"{route.action}{place}",
        "summary": _SUMMARIES[route.action],
        "parameters": [
            _name(word) for word in ("model", "version") if f"{{{word}}}" in route.template
        ],
        "responses": _responses(route, settings),
    }
    if route.access == "admin" or (route.access == "token" and settings.token is not None):
        found["security"] = [{"token": []}] if settings.token is not None else []
    if route.action in ("rank", "explain"):
        found["requestBody"] = {
            "required": True,
            "content": {
                JSON: {"schema": {"$ref": "#/components/schemas/Lists"}},
                BYTES: {
                    "schema": {
                        "type": "string",
                        "format": "binary",
                        "description": "float32, little-endian, document after document",
                    }
                },
            },
        }
        found["parameters"].append(
            {
                "name": "x-list-sizes",
                "in": "header",
                "description": f"For {BYTES}: the number of documents of each list. [all are one]",
                "schema": {"type": "string", "pattern": r"^[1-9]\d{0,8}(, ?[1-9]\d{0,8})*$"},
            }
        )
    return found


def _name(word: str) -> dict[str, Any]:
    return {"name": word, "in": "path", "required": True, "schema": {"type": "string"}}


def _responses(route: Route, settings: Settings) -> dict[str, Any]:
    problem = {PROBLEM: {"schema": {"$ref": "#/components/schemas/Problem"}}}
    codes = {403, 405}
    if route.access == "admin" or (route.access == "token" and settings.token is not None):
        codes.add(401)
    if "{model}" in route.template:
        codes.add(404)
    if route.action in ("rank", "explain"):
        codes.update(_ASKED)
    if route.action == "ready":
        codes.add(503)
    if route.action == "examples":
        codes.update((503, 504))
    found = {
        str(code): {"description": _REASONS[code], "content": problem} for code in sorted(codes)
    }
    found["200"] = {"description": _SUMMARIES[route.action], "content": _content(route)}
    if route.action == "reload":
        found["409"] = {"description": _REASONS[409], "content": _content(route)}
    return found


def _content(route: Route) -> dict[str, Any]:
    if route.action in ("metrics", "page"):
        kind = "text/plain" if route.action == "metrics" else "text/html"
        return {kind: {"schema": {"type": "string"}}}
    if route.action in ("health", "openapi"):
        return {JSON: {"schema": {"type": "object"}}}
    names = {"rank": "Ranking", "explain": "Explanation", "models": "Models", "model": "Model"}
    names |= {"examples": "Examples", "reload": "Reload", "ready": "Ready"}
    content: dict[str, Any] = {
        JSON: {"schema": {"$ref": f"#/components/schemas/{names[route.action]}"}}
    }
    if route.action == "rank":
        what = "scores, float64, little-endian (Accept: application/octet-stream)"
        content[BYTES] = {"schema": {"type": "string", "format": "binary", "description": what}}
    return content
