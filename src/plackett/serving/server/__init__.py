"""Serving models over HTTP: many at a time, replaced while requests go on."""

from plackett.serving.server.app import App
from plackett.serving.server.catalogue import Shelf
from plackett.serving.server.examples import Examples
from plackett.serving.server.serving import make_app, serve_models
from plackett.serving.server.settings import Limits, Settings

__all__ = ["App", "Examples", "Limits", "Settings", "Shelf", "make_app", "serve_models"]
