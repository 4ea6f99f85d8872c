"""The OpenAPI description of a server, generated from its routes and the types of their bodies."""

from collections.abc import Callable
from dataclasses import dataclass
from importlib.resources import files
from typing import Any, TypeVar

import msgspec
import numpy as np
from numpy.typing import NDArray

from plackett._version import __version__
from plackett.base.errors import FeatureMismatch
from plackett.data import Dataset
from plackett.data.transforms import FittedChain
from plackett.data.transforms.features import FittedStandard
from plackett.serving.server.http import BYTES, JSON, PROBLEM, AccessLevel
from plackett.serving.server.model import Model, plain_trees
from plackett.serving.server.requests import SIZES_HEADER, SIZES_PATTERN
from plackett.serving.server.schemas import BatchRequest, Example, ExampleList, ListRequest, Problem
from plackett.serving.server.settings import Settings

Handler = TypeVar("Handler", bound=Callable[..., Any])

_REASONS = {
    400: "The body does not match its content-type",
    401: "The token is missing or wrong",
    403: "Not allowed without a token",
    404: "No such model or version",
    405: "The method is not allowed here",
    406: "Not available in the requested form",
    408: "The body was sent too slowly",
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
    if route.action in ("rank", "explain"):
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
    "description": f"For {BYTES}: the number of documents of each list. [all documents form one list]",
    "schema": {"type": "string", "pattern": f"^{SIZES_PATTERN}$"},
}


CONTENT_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
    "img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
_MEDIA_TYPES = {"html": "text/html", "css": "text/css", "js": "text/javascript"}
_MAX_EXAMPLES, _MAX_DOCUMENTS = 4, 12
_DIGITS = 4  # of displayed numbers
_ZERO = 1e-30  # LightGBM splits next to zero at 1e-35


def _read_asset(name: str) -> tuple[bytes, str]:
    content = files("plackett.serving.server").joinpath("assets", name).read_bytes()
    return content, _MEDIA_TYPES[name.rpartition(".")[2]]


FILES = {
    "/": _read_asset("index.html"),
    "/docs": _read_asset("docs.html"),
    **{f"/assets/{name}": _read_asset(name) for name in ("page.css", "page.js", "docs.js")},
}
"""Content and media type by path of the request."""


@dataclass(frozen=True)
class Examples:
    """Lists that users may try, from ``data``; None generates lists for each model."""

    data: Dataset | None = None

    def check(self, models: list[Model]) -> None:
        """Raise FeatureMismatch if the data does not fit any model."""
        widths = sorted({len(model.names) for model in models})
        if self.data is not None and self.data.n_features not in widths:
            raise FeatureMismatch(
                f"the examples have {self.data.n_features} features; the models have {', '.join(map(str, widths))}."
            )

    def of(self, model: Model) -> ExampleList:
        """Examples for a model."""
        if self.data is not None and self.data.n_features == len(model.names):
            return ExampleList(model.name, model.version, False, _select_lists(self.data))
        return ExampleList(model.name, model.version, True, _make_up_lists(model))


def _select_lists(data: Dataset) -> list[Example]:
    examples = []
    long = np.flatnonzero(data.list_sizes > 1)  # one document has nothing to rank
    for q in (long if len(long) else np.arange(data.n_lists))[:_MAX_EXAMPLES].tolist():
        part = data.lists(q, q + 1)
        features = part.features[:_MAX_DOCUMENTS]
        dense = features if isinstance(features, np.ndarray) else features.toarray()
        rows = [f"row {row + 1}" for row in part.rows[:_MAX_DOCUMENTS]]
        ids = rows if part.document_ids is None else part.document_ids[:_MAX_DOCUMENTS]
        names: list[str | int] = [str(i) or row for i, row in zip(ids, rows, strict=True)]
        examples.append(Example(f"query {part.list_ids[0]}", _round(dense), names))
    return examples


def _make_up_lists(model: Model) -> list[Example]:
    rng = np.random.default_rng(0)
    ids: list[str | int] = [f"document {i + 1}" for i in range(_MAX_DOCUMENTS)]
    return [Example(f"made-up list {k + 1}", _round(_draw_features(model, rng)), ids) for k in range(_MAX_EXAMPLES)]


def _draw_features(model: Model, rng: np.random.Generator) -> NDArray[np.float64]:
    """Values that the model distinguishes: from its thresholds, or by mean and deviation."""
    shape = (_MAX_DOCUMENTS, len(model.names))
    ensemble = plain_trees(model.ranker)
    if ensemble is not None:
        features = np.zeros(shape)
        is_numeric = (ensemble.category_set < 0) & (np.abs(ensemble.threshold) < 1e30)
        for j in np.unique(ensemble.feature[is_numeric]):
            thresholds = ensemble.threshold[is_numeric & (ensemble.feature == j)]
            features[:, j] = rng.choice(thresholds, _MAX_DOCUMENTS)
        return np.where(np.abs(features) < _ZERO, 0.0, features)
    transform = model.ranker.transform_
    first = transform.transforms[0] if isinstance(transform, FittedChain) else transform
    if isinstance(first, FittedStandard):
        return first.mean + first.deviation * rng.normal(size=shape)
    return rng.random(shape)


def _round(features: NDArray[Any]) -> list[list[float | None]]:
    return [[float(f"{v:.{_DIGITS}g}") if np.isfinite(v) else None for v in row] for row in features]
