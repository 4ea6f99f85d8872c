"""Serving models over HTTP: several at a time, replaced while requests are answered."""

from collections.abc import Sequence

from plackett.base.errors import require

require("msgspec", "prometheus_client", "starlette")

from plackett.serving.server.app import App
from plackett.serving.server.pages import Examples
from plackett.serving.server.registry import ModelRegistry, parse_sources
from plackett.serving.server.settings import Limits, Settings
from plackett.serving.server.telemetry import Log


def make_app(
    models: Sequence[str], settings: Settings | None = None, *, examples: Examples | None = None, log: Log | None = None
) -> App:
    """Make an ASGI application that serves models, for any ASGI server.

    Parameters
    ----------
    models
        ``path`` or ``name=path`` of models, or of folders of models that are versions of one.
    settings
        Limits and token.
    examples
        Lists that the page offers to try.
    log
        Where to log; by default standard error.
    """
    settings = settings or Settings()
    settings.check()
    registry = ModelRegistry(parse_sources(list(models)))
    examples = examples or Examples()
    examples.check(registry.catalog.all())
    return App(registry, settings, log=log, examples=examples)


__all__ = ["App", "Examples", "Limits", "ModelRegistry", "Settings", "make_app"]
