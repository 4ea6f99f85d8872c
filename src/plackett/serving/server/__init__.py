"""Serving models over HTTP: many at a time, replaced while requests go on."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from plackett.serving.server.app import App
from plackett.serving.server.examples import Examples
from plackett.serving.server.registry import Shelf, parse_sources
from plackett.serving.server.run import port_for, run
from plackett.serving.server.settings import Limits, Settings
from plackett.serving.server.telemetry import Log


def make_app(
    models: Sequence[str],
    settings: Settings | None = None,
    *,
    examples: Examples | None = None,
    log: Log | None = None,
) -> App:
    """An ASGI application that serves models, for any server that runs such applications.

    Parameters
    ----------
    models
        ``path`` or ``name=path`` of models, or of folders of models that are versions of one.
    settings
        Limits and token.
    examples
        What the page offers to try.
    log
        Where to write what happens; by default standard error.
    """
    chosen = settings or Settings()
    chosen.check()
    need_orjson()
    shelf = Shelf(parse_sources(list(models)))
    offered = examples or Examples()
    offered.check(shelf.catalogue.all())
    return App(shelf, chosen, log=log, examples=offered)


def serve_models(
    models: Sequence[str],
    settings: Settings | None = None,
    *,
    examples: Examples | None = None,
    ready: Callable[[str], None] = lambda _: None,
) -> None:
    """Serve models until the process is told to stop; see :func:`make_app`."""
    chosen = settings or Settings()
    chosen.check()
    port = port_for(chosen)  # before models are loaded, which may take a while
    run(make_app(models, chosen, examples=examples), port=port, ready=ready)


def need_orjson() -> None:
    """Say what to install where it is not."""
    try:
        import orjson  # noqa: F401
    except ImportError as error:
        raise ImportError("plackett serve needs orjson: pip install 'plackett[serve]'") from error


__all__ = [
    "App",
    "Examples",
    "Limits",
    "Settings",
    "Shelf",
    "make_app",
    "serve_models",
]
