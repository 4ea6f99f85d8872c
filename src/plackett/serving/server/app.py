"""The server as an ASGI application: routes, limits, metrics and logs around the models.

Who may ask: a token in the request, and for servers without one, this machine only.

Which paths there are, and what they are called in metrics and logs.

JSON schemas of what goes in and out.

The OpenAPI description of the server.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import time
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Literal

from plackett._version import __version__
from plackett.serving.server.answers import answer, question_of, to_json
from plackett.serving.server.examples import Examples
from plackett.serving.server.http import (
    BYTES,
    JSON,
    PROBLEM,
    Gone,
    Receive,
    Receiver,
    Request,
    Response,
    Scope,
    Send,
    busy,
    send_response,
)
from plackett.serving.server.page import content_policy, html
from plackett.serving.server.registry import Reload, Shelf
from plackett.serving.server.requests import ABSENT, warm_up
from plackett.serving.server.settings import Limits, Refusal, Settings
from plackett.serving.server.telemetry import CONTENT_TYPE, Log, Metrics

_UNAUTHORISED, _FORBIDDEN = 401, 403
_LOCAL = ("localhost", "127.0.0.1", "::1")


class Access:
    """Checks requests against the settings of a server."""

    def __init__(self, settings: Settings) -> None:
        self._token = None if settings.token is None else _digest(settings.token)
        self._hosts = {*_LOCAL, settings.host.strip("[]")}

    def check_host(self, request: Request) -> None:
        """Without a token, answer only requests that mean this machine.

        A page of somebody else's can have its own name lead to 127.0.0.1 and then read what the
        browser gets from there; such requests carry that page's name.
        """
        host = request.headers.get("host", "")
        if self._token is None and _without_port(host) not in self._hosts:
            raise Refusal(
                _FORBIDDEN,
                f"this server answers requests for {', '.join(sorted(self._hosts))} only; to have "
                "it under another name, start it with a token.",
            )

    def check_token(self, request: Request) -> None:
        """Refuse a request without the token, if there is one."""
        if self._token is None:
            return
        kind, _, given = request.headers.get("authorization", "").partition(" ")
        # In a time that depends neither on where they differ nor on how long they are.
        right = hmac.compare_digest(_digest(given.strip()), self._token)
        if kind.lower() != "bearer" or not right:
            raise Refusal(
                _UNAUTHORISED,
                "send the server's token: Authorization: Bearer ...",
                {"www-authenticate": "Bearer"},
            )

    def check_admin(self, request: Request) -> None:
        """Refuse to change anything for clients that are not known."""
        if self._token is None:
            raise Refusal(
                _FORBIDDEN,
                "this needs a token; start the server with PLACKETT_TOKEN or --token.",
            )
        self.check_token(request)


def _digest(token: str) -> bytes:
    return hashlib.sha256(token.encode("utf-8", errors="surrogateescape")).digest()


def _without_port(host: str) -> str:
    if host.startswith("["):
        return host[1:].partition("]")[0]
    return host.rpartition(":")[0].lower() if ":" in host else host.lower()


_NOT_FOUND = 404
AccessLevel = Literal["open", "token", "admin"]


@dataclass(frozen=True)
class Route:
    """A path with places for names."""

    template: str
    action: str
    method: str = "GET"
    access: AccessLevel = "token"
    parts: tuple[str, ...] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "parts", tuple(self.template.split("/")))

    def match(self, parts: list[str]) -> dict[str, str] | None:
        """The names in a path, or None if it is another one."""
        if len(parts) != len(self.parts):
            return None
        names = {}
        for own, given in zip(self.parts, parts, strict=True):
            if own.startswith("{"):
                names[own[1:-1]] = given
            elif own != given:
                return None
        return names


_MODEL, _VERSION = "/models/{model}", "/models/{model}/versions/{version}"

ROUTES = (
    Route("/rank", "rank", "POST"),
    Route(f"{_MODEL}/rank", "rank", "POST"),
    Route(f"{_VERSION}/rank", "rank", "POST"),
    Route("/explain", "explain", "POST"),
    Route(f"{_MODEL}/explain", "explain", "POST"),
    Route(f"{_VERSION}/explain", "explain", "POST"),
    Route("/models", "models"),
    Route(_MODEL, "model"),
    Route(_VERSION, "model"),
    Route(f"{_MODEL}/examples", "examples"),
    Route("/admin/reload", "reload", "POST", access="admin"),
    Route("/health", "health", access="open"),
    Route("/ready", "ready", access="open"),
    Route("/metrics", "metrics"),
    Route("/openapi.json", "openapi", access="open"),
    Route("/", "page", access="open"),
)


def route_of(path: str) -> tuple[Route, dict[str, str]]:
    """The route of a path and the names in it."""
    parts = path.split("/")
    for route in ROUTES:
        names = route.match(parts)
        if names is not None:
            return route, names
    raise Refusal(_NOT_FOUND, "there is nothing here; GET /openapi.json lists what there is.")


_TEXT: dict[str, Any] = {"type": "string"}
_TEXTS: dict[str, Any] = {"type": "array", "items": _TEXT}
_NUMBERS: dict[str, Any] = {"type": "array", "items": {"type": "number"}}
_ROWS: dict[str, Any] = {"type": "array", "items": _NUMBERS}
_FEATURE: dict[str, Any] = {
    "type": ["number", "null"],
    "minimum": -3.4e38,
    "maximum": 3.4e38,
    "description": "null is missing",
}
_IDS: dict[str, Any] = {"type": "array", "items": {"type": ["string", "integer"]}}


def _object(required: dict[str, Any], optional: dict[str, Any] | None = None) -> dict[str, Any]:
    return {
        "type": "object",
        "required": list(required),
        "properties": required | (optional or {}),
    }


_RANKED = {
    "scores": _NUMBERS | {"description": "One per document, in the order of the request"},
    "order": {
        "type": "array",
        "items": {"type": "integer", "minimum": 0},
        "description": "Places of the documents in the request, best first; ties by place",
    },
}
_OPTIONAL = {"ids": _IDS | {"description": "The ids of the request in this order"}}
_WHICH = {"model": _TEXT, "version": _TEXT}
_EXPLAINED = {"contributions": _ROWS | {"description": "Documents x features"}}
_METHOD = {
    "method": {"type": "string", "enum": ["shap", "weights", "replacement"]},
    "note": _TEXT,
    "base": {"type": "number"},
    "features": _TEXTS,
}
_NAMED = {"name": _TEXT, "version": _TEXT}


def _one_or_many(
    head: dict[str, Any], part: dict[str, Any], optional: dict[str, Any]
) -> dict[str, Any]:
    batch = {"lists": {"type": "array", "items": _object(part, optional)}}
    return {"anyOf": [_object(head | part, optional), _object(head | batch)]}


SCHEMAS: dict[str, Any] = {
    "Ranking": _one_or_many(_WHICH, _RANKED, _OPTIONAL),
    "Explanation": _one_or_many(_WHICH | _METHOD, _RANKED | _EXPLAINED, _OPTIONAL),
    "Models": _object(
        {"models": {"type": "array", "items": _object(_NAMED | {"versions": _TEXTS})}}
    ),
    "Model": _object(
        _NAMED
        | {
            "kind": _TEXT,
            "recipe": {"type": ["string", "null"]},
            "summary": _TEXT,
            "takes_missing": {"type": "boolean"},
            "features": _TEXTS,
        }
    ),
    "Examples": _object(
        _WHICH
        | {
            "made_up": {"type": "boolean"},
            "examples": {
                "type": "array",
                "items": _object({"name": _TEXT, "documents": {"type": "array"}, "ids": _IDS}),
            },
        }
    ),
    "Reload": _object(
        {
            "loaded": {"type": "array", "items": _object(_NAMED)},
            "removed": {"type": "array", "items": _object(_NAMED)},
            "problems": _TEXTS,
        }
    ),
    "Ready": _object({"status": _TEXT, "models": {"type": "integer"}}),
    "Problem": _object({"title": _TEXT, "status": {"type": "integer"}, "detail": _TEXT}),
}
"""Schemas that are the same for every server."""


def lists_schema(limits: Limits) -> dict[str, Any]:
    """What is ranked: one list or a batch of lists, within the limits of a server."""
    document = {
        "anyOf": [
            {"type": "array", "items": _FEATURE, "description": "All features in their order"},
            {
                "type": "object",
                "additionalProperties": _FEATURE,
                "description": "Features by name",
            },
        ]
    }
    documents = {
        "type": "array",
        "items": document,
        "minItems": 1,
        "maxItems": limits.documents,
    }
    ids = _IDS | {"description": "One per document; comes back in the order of the ranking"}
    common = {
        "top": {"type": "integer", "minimum": 1, "description": "Length of the order. [all]"},
        "absent": {
            "type": "string",
            "enum": list(ABSENT),
            "default": "refuse",
            "description": "How to read features that a document by name leaves out",
        },
    }
    one = _object({"documents": documents}, {"ids": ids}) | {"additionalProperties": False}
    batch = {"type": "array", "items": one, "minItems": 1, "maxItems": limits.lists}
    return {
        "anyOf": [
            _object({"documents": documents}, {"ids": ids, **common})
            | {"additionalProperties": False},
            _object({"lists": batch}, common) | {"additionalProperties": False},
        ]
    }


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


_NOT_ALLOWED, _CONFLICT, _ERROR, _UNAVAILABLE, _GATEWAY_TIMEOUT = 405, 409, 500, 503, 504
_GONE = 499  # in logs and metrics: the client left before the answer


class App:
    """Serves the models of a shelf.

    Parameters
    ----------
    shelf
        The models.
    settings
        Limits and token; what they say of address and port does not matter here.
    log
        Where to write what happens.
    examples
        What the page offers to try.
    """

    def __init__(
        self,
        shelf: Shelf,
        settings: Settings | None = None,
        *,
        log: Log | None = None,
        examples: Examples | None = None,
    ) -> None:
        self.shelf = shelf
        self.settings = settings or Settings()
        self.log = log or Log(requests=self.settings.log_requests)
        self.metrics = Metrics()
        self.draining = False
        """No longer ready: the server was told to stop."""
        self._problems: set[str] = set()
        self._examples = examples or Examples()
        self._access = Access(self.settings)
        self._receiver = Receiver(self.settings.limits)
        self._pool = ThreadPoolExecutor(self.settings.threads, thread_name_prefix="score")
        self._loader = ThreadPoolExecutor(1, thread_name_prefix="load")
        self._actions: dict[str, Callable[..., Awaitable[Response]]] = {
            "rank": partial(self._ask, "rank"),
            "explain": partial(self._ask, "explain"),
            "models": self._models,
            "model": self._model,
            "examples": self._offer,
            "reload": self._reload,
            "health": self._health,
            "ready": self._ready,
            "metrics": self._scrape,
            "openapi": self._openapi,
            "page": self._page,
        }
        warm_up(shelf.catalogue.find(None, None).names)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request, as ASGI has it."""
        if scope["type"] == "lifespan":
            await _lifespan(receive, send)
        if scope["type"] != "http":
            return
        request = Request(scope, receive)
        self.metrics.in_flight += 1
        status = _GONE
        try:
            response = await self._respond(request)
            status = response.status
            if self.draining:
                response.headers["connection"] = "close"
            await send_response(send, request, response)
        except Gone:
            pass
        finally:
            self.metrics.in_flight -= 1
            self._note(request, status)

    def close(self) -> None:
        """End the threads."""
        self._pool.shutdown(wait=False, cancel_futures=True)
        self._loader.shutdown(wait=False, cancel_futures=True)

    async def refresh(self, *, force: bool = False) -> Reload:
        """Look for changed models; requests go on meanwhile."""
        loop = asyncio.get_running_loop()
        found = await loop.run_in_executor(self._loader, partial(self.shelf.refresh, force=force))
        for outcome, models in (("loaded", found.changed), ("removed", found.removed)):
            for model in models:
                self.metrics.reloads[outcome] += 1
                self.log.write(outcome, model=model.name, version=model.version)
        for problem in found.problems:
            if force or problem not in self._problems:  # told once, not at every look
                self.metrics.reloads["failed"] += 1
                self.log.write("reload failed", level="error", reason=problem)
        self._problems = set(found.problems)
        return found

    async def _respond(self, request: Request) -> Response:
        try:
            self._access.check_host(request)
            route, names = route_of(request.path)
            request.route = route.template
            if route.access == "token":
                self._access.check_token(request)
            elif route.access == "admin":
                self._access.check_admin(request)
            allowed = ("GET", "HEAD") if route.method == "GET" else (route.method,)
            if request.method not in allowed:
                words = ", ".join(allowed)
                raise Refusal(_NOT_ALLOWED, f"only {words} is possible here.", {"allow": words})
            return await self._actions[route.action](request, **names)
        except Refusal as refusal:
            return _refused(refusal)
        except Gone:
            raise
        except Exception as error:  # a fault of ours: the client is told, the log knows where
            self.log.failure("failure", error, id=request.id, route=request.route)
            return _refused(Refusal(_ERROR, f"the server failed; its log has {request.id}."))

    async def _ask(
        self,
        what: Literal["rank", "explain"],
        request: Request,
        model: str | None = None,
        version: str | None = None,
    ) -> Response:
        found = self.shelf.catalogue.find(model, version)
        question = question_of(request, what)
        body = await self._receiver.read(request)
        request.facts |= {"model": found.name, "version": found.version, "bytes": len(body)}
        response, lists = await self._run(answer, body, found, question, self.settings.limits)
        counted = found.name, found.version
        self.metrics.lists[counted] += lists.n_lists
        self.metrics.documents[counted] += lists.n_docs
        request.facts |= {"lists": lists.n_lists, "documents": lists.n_docs}
        return response

    async def _run(self, work: Callable[..., Any], *arguments: Any) -> Any:
        """Run in a thread, within the limits on concurrency and time."""
        limits = self.settings.limits
        if self.metrics.waiting >= limits.concurrency:
            raise busy(f"{limits.concurrency} requests are being answered")
        future = asyncio.get_running_loop().run_in_executor(self._pool, work, *arguments)
        self.metrics.waiting += 1
        # A thread cannot be stopped: what takes too long keeps its place until it is done.
        future.add_done_callback(self._done)
        done, _ = await asyncio.wait({future}, timeout=limits.seconds)
        if not done:
            raise Refusal(_GATEWAY_TIMEOUT, f"no answer within {limits.seconds:g} seconds.")
        return future.result()

    def _done(self, future: asyncio.Future[Any]) -> None:
        self.metrics.waiting -= 1
        if not future.cancelled():
            future.exception()  # looked at, whether or not anybody still waits

    async def _models(self, request: Request) -> Response:  # noqa: ARG002 - one signature
        models = self.shelf.catalogue.models
        found = [
            {
                "name": name,
                "version": versions[-1].version,
                "versions": [v.version for v in versions],
            }
            for name, versions in models.items()
        ]
        return Response(to_json({"models": found}))

    async def _model(
        self, request: Request, model: str, version: str | None = None  # noqa: ARG002
    ) -> Response:  # fmt: skip
        return Response(to_json(self.shelf.catalogue.find(model, version).to_dict()))

    async def _offer(self, request: Request, model: str) -> Response:  # noqa: ARG002
        found = self.shelf.catalogue.find(model, None)
        content = await self._run(self._examples.of, found)
        return Response(to_json({"model": found.name, "version": found.version, **content}))

    async def _reload(self, request: Request) -> Response:  # noqa: ARG002
        found = await self.refresh(force=True)
        content = {
            "loaded": [{"name": m.name, "version": m.version} for m in found.changed],
            "removed": [{"name": m.name, "version": m.version} for m in found.removed],
            "problems": found.problems,
        }
        return Response(to_json(content), _CONFLICT if found.problems else 200)

    async def _health(self, request: Request) -> Response:  # noqa: ARG002
        return Response(to_json({"status": "ok"}))

    async def _ready(self, request: Request) -> Response:  # noqa: ARG002
        if self.draining:
            raise Refusal(_UNAVAILABLE, "the server is stopping.")
        return Response(to_json({"status": "ready", "models": len(self.shelf.catalogue.models)}))

    async def _scrape(self, request: Request) -> Response:  # noqa: ARG002
        models = [(model.name, model.version) for model in self.shelf.catalogue.all()]
        return Response(self.metrics.text(models).encode(), 200, CONTENT_TYPE)

    async def _openapi(self, request: Request) -> Response:  # noqa: ARG002
        return Response(to_json(document(self.settings)))

    async def _page(self, request: Request) -> Response:  # noqa: ARG002
        headers = {"content-security-policy": content_policy(), "referrer-policy": "no-referrer"}
        return Response(html(), 200, "text/html; charset=utf-8", headers)

    def _note(self, request: Request, status: int) -> None:
        seconds = time.perf_counter() - request.started
        self.metrics.observe(request.route, status, seconds)
        if self.log.requests:
            self.log.write(
                "request",
                id=request.id,
                method=request.method,
                path=request.path,
                status=status,
                ms=round(1000 * seconds, 3),
                **request.facts,
            )


def _refused(refusal: Refusal) -> Response:
    return Response(to_json(refusal.to_dict()), refusal.status, PROBLEM, dict(refusal.headers))


async def _lifespan(receive: Receive, send: Send) -> None:
    while True:
        message = await receive()
        await send({"type": message["type"] + ".complete"})
        if message["type"] == "lifespan.shutdown":
            return
