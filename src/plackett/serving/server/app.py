"""The server as an ASGI application: routes, limits, metrics and logs around the models."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, Literal

from plackett.serving.server.access import Access
from plackett.serving.server.bodies import warm_up
from plackett.serving.server.catalogue import Reload, Shelf
from plackett.serving.server.examples import Examples
from plackett.serving.server.http import (
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
from plackett.serving.server.logs import Log
from plackett.serving.server.metrics import CONTENT_TYPE, Metrics
from plackett.serving.server.openapi import document
from plackett.serving.server.page import content_policy, html
from plackett.serving.server.ranking import answer, question_of, to_json
from plackett.serving.server.refusals import Refusal
from plackett.serving.server.routes import route_of
from plackett.serving.server.settings import Settings

_NOT_ALLOWED, _CONFLICT, _ERROR, _UNAVAILABLE, _TIMEOUT = 405, 409, 500, 503, 504
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
            raise Refusal(_TIMEOUT, f"no answer within {limits.seconds:g} seconds.")
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
