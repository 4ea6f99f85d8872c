"""From the names of models to a running server, or to an application for another one."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from plackett.serving.server.app import App
from plackett.serving.server.catalogue import Shelf
from plackett.serving.server.examples import Examples
from plackett.serving.server.logs import Log
from plackett.serving.server.running import port_for, run
from plackett.serving.server.settings import Settings
from plackett.serving.server.sources import parse_sources


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
