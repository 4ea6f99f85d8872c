"""Serving models over HTTP: several at a time, replaced while requests are answered."""

from collections.abc import Callable, Sequence

from plackett.base.errors import require

require("msgspec", "prometheus_client", "starlette")

from plackett.serving.server.app import App
from plackett.serving.server.page import Examples
from plackett.serving.server.registry import ModelRegistry, parse_sources
from plackett.serving.server.run import check_port, serve_app
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


def serve_models(
    models: Sequence[str],
    settings: Settings | None = None,
    *,
    examples: Examples | None = None,
    on_ready: Callable[[str], None] = lambda _: None,
) -> None:
    """Serve models until the process is told to stop; see :func:`make_app`."""
    settings = settings or Settings()
    settings.check()
    port = check_port(settings)  # before models are loaded, which may take a while
    serve_app(make_app(models, settings, examples=examples), port=port, on_ready=on_ready)


__all__ = ["App", "Examples", "Limits", "ModelRegistry", "Settings", "make_app", "serve_models"]
