"""The server as an ASGI application: Starlette routes, limits, metrics and logs around the models.

Why Starlette and not Litestar: under Granian a minimal application took 159 µs of processor time per
request instead of 190, and 344 instead of 441 with bodies of 178 kB. Its dependencies take 2 MB
instead of 50 MB (Litestar's include Faker).
"""

import asyncio
import re
import secrets
import time
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeVar

import msgspec
from starlette.datastructures import Headers
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route, Router
from starlette.types import Message, Receive, Scope, Send

from plackett.base.ragged import Scores
from plackett.serving.server import pages, schemas
from plackett.serving.server.http import BYTES, JSON, AccessPolicy, BodyReader, HTTPError, too_busy
from plackett.serving.server.model import MicroBatcher, Model, explanation_response, ranking_response
from plackett.serving.server.pages import operation
from plackett.serving.server.registry import ModelRegistry, ReloadReport
from plackett.serving.server.requests import SIZES_HEADER, read_bytes, read_json
from plackett.serving.server.scanner import Lists
from plackett.serving.server.settings import Settings
from plackett.serving.server.telemetry import METRICS_TYPE, Log, Metrics

T = TypeVar("T")

_CLIENT_DISCONNECTED = 499  # status in logs and metrics
_REQUEST_ID = re.compile(r"[A-Za-z0-9._-]{1,64}", re.ASCII)
_MODEL, _VERSION = "/models/{model}", "/models/{model}/versions/{version}"
_PREFIXES = ("", _MODEL, _VERSION)
_NO_SUCH_PATH = "there is nothing here; GET /openapi.json lists what there is."


@dataclass
class RequestRecord:
    """What is logged and counted about one request."""

    id: str
    method: str
    path: str
    started: float = field(default_factory=time.perf_counter)
    route: str = "unknown"
    """The path with placeholders: clients cannot create names of metrics."""
    status: int = _CLIENT_DISCONNECTED
    fields: dict[str, Any] = field(default_factory=dict)
    """Further fields of the log."""


class App:
    """Serves the models of a registry.

    Of the settings, ``port`` is not used here, and ``host`` only decides which Host headers are accepted.
    """

    def __init__(
        self,
        registry: ModelRegistry,
        settings: Settings | None = None,
        *,
        log: Log | None = None,
        examples: pages.Examples | None = None,
    ) -> None:
        self.registry = registry
        self.settings = settings or Settings()
        self.log = log or Log(requests=self.settings.log_requests)
        self.metrics = Metrics()
        self.is_draining = False
        """The server is stopping: not ready, and connections are closed."""
        self._known_problems: set[str] = set()
        self._examples = examples or pages.Examples()
        self._access = AccessPolicy(self.settings)
        self._bodies = BodyReader(self.settings.limits)
        self._pool = ThreadPoolExecutor(self.settings.threads, thread_name_prefix="score")
        self._loader = ThreadPoolExecutor(1, thread_name_prefix="load")
        self._batcher = MicroBatcher(self._pool)
        routes = [_ApiRoute(route, getattr(self, f"handle_{route.action}"), self._access) for route in OPERATIONS]
        self._router = Router(routes, redirect_slashes=False, default=_refuse_path)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request (ASGI)."""
        if scope["type"] != "http":
            await self._router(scope, receive, send)
            return
        headers = Headers(scope=scope)
        request_id = headers.get("x-request-id", "")
        if not _REQUEST_ID.fullmatch(request_id):
            request_id = secrets.token_hex(8)
        record = RequestRecord(request_id, scope["method"], scope["path"])
        scope["record"] = record
        send = self._wrap_send(send, record)
        self.metrics.in_flight += 1
        try:
            self._access.check_host(headers)
            await self._router(scope, receive, send)
        except HTTPError as error:
            await error.to_response()(scope, receive, send)
        except ClientDisconnect:
            pass
        except Exception as error:
            self.log.failure("failure", error, id=record.id, route=record.route)
            if record.status != _CLIENT_DISCONNECTED:  # the response has begun
                raise
            problem = HTTPError(500, f"the server failed; its log has {record.id}.")
            await problem.to_response()(scope, receive, send)
        finally:
            self.metrics.in_flight -= 1
            self._record(record)

    def _wrap_send(self, send: Send, record: RequestRecord) -> Send:
        """Add the headers of every response, and leave out the body for HEAD."""

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                record.status = message["status"]
                message["headers"] += [
                    (b"x-request-id", record.id.encode("ascii")),
                    (b"x-content-type-options", b"nosniff"),
                    (b"cache-control", b"no-store"),
                ]
                if self.is_draining:
                    message["headers"].append((b"connection", b"close"))
            elif record.method == "HEAD":
                message["body"] = b""
            await send(message)

        return send_with_headers

    def _record(self, record: RequestRecord) -> None:
        seconds = time.perf_counter() - record.started
        self.metrics.requests.labels(record.route, str(record.status)).inc()
        self.metrics.seconds.labels(record.route).observe(seconds)
        if self.log.requests:
            self.log.write(
                "request",
                id=record.id,
                method=record.method,
                path=record.path,
                status=record.status,
                ms=round(1000 * seconds, 3),
                **record.fields,
            )

    def close(self) -> None:
        """Cancel the work that waits; threads that run finish it."""
        self._pool.shutdown(wait=False, cancel_futures=True)
        self._loader.shutdown(wait=False, cancel_futures=True)

    async def refresh(self, *, force: bool = False) -> ReloadReport:
        """Load changed models; requests are answered meanwhile. ``force`` logs known problems again."""
        report = await asyncio.get_running_loop().run_in_executor(self._loader, self.registry.reload)
        for outcome, models in (("loaded", report.loaded), ("removed", report.removed)):
            for model in models:
                self.metrics.reloads.labels(outcome).inc()
                self.log.write(outcome, model=model.name, version=model.version)
        for problem in report.problems:
            if force or problem not in self._known_problems:  # log it once, not at every check
                self.metrics.reloads.labels("failed").inc()
                self.log.write("reload failed", level="error", reason=problem)
        self._known_problems = set(report.problems)
        return report

    # ---- scoring ---------------------------------------------------------------------------------

    @operation(
        *(f"{prefix}/rank" for prefix in _PREFIXES),
        returns=(schemas.Ranking, schemas.RankingBatch),
        media_types=(JSON, BYTES),
        method="POST",
        errors=pages.SCORING_ERRORS,
    )
    async def handle_rank(self, request: Request) -> Response:
        """Scores and order of lists of documents."""
        return await self._score(request, is_explained=False)

    @operation(
        *(f"{prefix}/explain" for prefix in _PREFIXES),
        returns=(schemas.Explanation, schemas.ExplanationBatch),
        method="POST",
        errors=pages.SCORING_ERRORS,
    )
    async def handle_explain(self, request: Request) -> Response:
        """Scores and order of lists, and what each feature adds to each score."""
        return await self._score(request, is_explained=True)

    async def _score(self, request: Request, *, is_explained: bool) -> Response:
        model = self._find_model(request)
        accepts_bytes = request.headers.get("accept", "").strip().lower() == BYTES
        if request.headers.get("content-encoding", "identity") != "identity":
            raise HTTPError(415, "bodies must not be compressed.")
        if _media_type(request) not in (JSON, BYTES):
            raise HTTPError(415, f"content-type must be {JSON} or {BYTES}.")
        if accepts_bytes and is_explained:
            raise HTTPError(406, f"explanations come as {JSON} only.")
        body = await self._bodies.read(request)
        record: RequestRecord = request.scope["record"]
        record.fields |= {"model": model.name, "version": model.version, "bytes": len(body)}
        read = partial(self._read, request, model, body, is_explained=is_explained)

        def write(lists: Lists, scores: Scores) -> tuple[Response, Lists]:
            if accepts_bytes:
                headers = {"x-model": model.name, "x-version": model.version}
                return Response(scores.astype("<f8").tobytes(), headers=headers, media_type=BYTES), lists
            return _to_json((explanation_response if is_explained else ranking_response)(model, lists, scores)), lists

        def answer() -> tuple[Response, Lists]:
            lists = read()
            return write(lists, model.score(lists.features, lists.offsets))

        async def answer_in_batch() -> tuple[Response, Lists]:
            lists = await self._in_thread(read)
            return await self._in_thread(write, lists, await self._batcher.score(model, lists))

        is_batched = model.is_batched and not is_explained
        response, lists = await self._within_limits(answer_in_batch if is_batched else partial(self._in_thread, answer))
        self.metrics.lists.labels(model.name, model.version).inc(lists.n_lists)
        self.metrics.documents.labels(model.name, model.version).inc(lists.n_docs)
        record.fields |= {"lists": lists.n_lists, "documents": lists.n_docs}
        return response

    def _find_model(self, request: Request) -> Model:
        names = request.path_params
        return self.registry.catalog.find(names.get("model"), names.get("version"))

    def _read(self, request: Request, model: Model, body: bytes, *, is_explained: bool) -> Lists:
        limits = self.settings.limits
        if _media_type(request) == BYTES:
            lists = read_bytes(body, request.headers.get(SIZES_HEADER), model.names, limits)
        else:
            lists = read_json(body, model.names, limits)
        if is_explained and lists.n_docs > limits.explained:
            raise HTTPError(413, f"{lists.n_docs} documents; at most {limits.explained} are explained at a time.")
        return lists

    def _in_thread(self, work: Callable[..., T], *arguments: Any) -> asyncio.Future[T]:
        return asyncio.get_running_loop().run_in_executor(self._pool, work, *arguments)

    async def _within_limits(self, start: Callable[[], Awaitable[T]]) -> T:
        """Start work in threads and wait for it, within the limits on concurrency and time."""
        limits = self.settings.limits
        if self.metrics.scoring >= limits.concurrency:
            raise too_busy(f"{limits.concurrency} requests are being answered")
        future = asyncio.ensure_future(start())
        self.metrics.scoring += 1
        # A thread cannot be stopped: work that takes too long counts against the limit until it is done.
        future.add_done_callback(self._finish)
        done, _ = await asyncio.wait({future}, timeout=limits.seconds)
        if not done:
            raise HTTPError(504, f"no answer within {limits.seconds:g} seconds.")
        return future.result()

    def _finish(self, future: asyncio.Future[Any]) -> None:
        self.metrics.scoring -= 1
        if not future.cancelled():
            future.exception()  # retrieved, so that asyncio does not warn after a timeout

    # ---- everything else -------------------------------------------------------------------------

    @operation("/models", returns=(schemas.ModelList,))
    async def handle_models(self, request: Request) -> Response:  # noqa: ARG002 - one signature
        """The models and their versions."""
        models = [
            schemas.ModelVersions(name, versions[-1].version, [model.version for model in versions])
            for name, versions in self.registry.catalog.models.items()
        ]
        return _to_json(schemas.ModelList(models))

    @operation(_MODEL, _VERSION, returns=(schemas.ModelInfo,))
    async def handle_model(self, request: Request) -> Response:
        """One version of a model, with its features in their order."""
        return _to_json(self._find_model(request).describe())

    @operation(f"{_MODEL}/examples", returns=(schemas.ExampleList,), errors=(503, 504))
    async def handle_examples(self, request: Request) -> Response:
        """Documents to try the model with."""
        start = partial(self._in_thread, self._examples.of, self._find_model(request))
        return _to_json(await self._within_limits(start))

    @operation("/admin/reload", returns=(schemas.ReloadResult,), method="POST", access="admin", errors=(409,))
    async def handle_reload(self, request: Request) -> Response:  # noqa: ARG002
        """Load changed models now."""
        report = await self.refresh(force=True)
        loaded, removed = (
            [schemas.ModelVersion(model.name, model.version) for model in models]
            for models in (report.loaded, report.removed)
        )
        status = 409 if report.problems else 200
        return _to_json(schemas.ReloadResult(loaded, removed, report.problems), status)

    @operation("/health", returns=(schemas.Health,), access="open")
    async def handle_health(self, request: Request) -> Response:  # noqa: ARG002
        """The process answers."""
        return _to_json(schemas.Health("ok"))

    @operation("/ready", returns=(schemas.Readiness,), access="open", errors=(503,))
    async def handle_ready(self, request: Request) -> Response:  # noqa: ARG002
        """The server accepts requests."""
        if self.is_draining:
            raise HTTPError(503, "the server is stopping.")
        return _to_json(schemas.Readiness("ready", len(self.registry.catalog.models)))

    @operation("/metrics", media_types=("text/plain",))
    async def handle_metrics(self, request: Request) -> Response:  # noqa: ARG002
        """Counts and times in the text format of Prometheus."""
        models = [(model.name, model.version) for model in self.registry.catalog.all()]
        return Response(self.metrics.to_text(models), media_type=METRICS_TYPE)

    @operation("/openapi.json", access="open")
    async def handle_openapi(self, request: Request) -> Response:  # noqa: ARG002
        """The OpenAPI description."""
        return _to_json(pages.describe(OPERATIONS, self.settings))

    @operation("/docs", media_types=("text/html",), access="open")
    async def handle_docs(self, request: Request) -> Response:
        """A page that shows this description and sends requests."""
        return _send_file(request)

    @operation("/", media_types=("text/html",), access="open")
    async def handle_page(self, request: Request) -> Response:
        """A page to try the models on."""
        return _send_file(request)

    @operation("/assets/{name}", access="open", is_described=False)
    async def handle_assets(self, request: Request) -> Response:
        """Scripts and styles of the pages."""
        return _send_file(request)


OPERATIONS = pages.list_operations(App)


class _ApiRoute(Route):
    """A route that checks the token before the method, and names the allowed methods in errors."""

    def __init__(self, operation: pages.Operation, endpoint: Any, access: AccessPolicy) -> None:
        super().__init__(operation.path, endpoint, methods=[operation.method])
        self._allowed = ("GET", "HEAD") if operation.method == "GET" else (operation.method,)
        self._check = partial(access.check_token, access=operation.access)

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        scope["record"].route = self.path
        self._check(Headers(scope=scope))
        if scope["method"] not in self._allowed:
            methods = ", ".join(self._allowed)
            raise HTTPError(405, f"only {methods} is possible here.", {"allow": methods})
        await self.app(scope, receive, send)


def _send_file(request: Request) -> Response:
    if request.scope["path"] not in pages.FILES:
        raise HTTPError(404, _NO_SUCH_PATH)
    content, media_type = pages.FILES[request.scope["path"]]
    headers = {"content-security-policy": pages.CONTENT_POLICY, "referrer-policy": "no-referrer"}
    return Response(content, headers=headers, media_type=media_type)


async def _refuse_path(scope: Scope, receive: Receive, send: Send) -> None:  # noqa: ARG001
    if scope["type"] == "http":
        raise HTTPError(404, _NO_SUCH_PATH)


def _to_json(content: Any, status: int = 200) -> Response:
    return Response(msgspec.json.encode(content), status, media_type=JSON)


def _media_type(request: Request) -> str:
    return request.headers.get("content-type", "").partition(";")[0].strip().lower()
