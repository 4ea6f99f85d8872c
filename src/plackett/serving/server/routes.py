"""Which paths there are, and what they are called in metrics and logs."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from plackett.serving.server.refusals import Refusal

_NOT_FOUND = 404
Access = Literal["open", "token", "admin"]


@dataclass(frozen=True)
class Route:
    """A path with places for names."""

    template: str
    action: str
    method: str = "GET"
    access: Access = "token"
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
