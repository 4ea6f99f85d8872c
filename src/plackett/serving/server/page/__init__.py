"""The page on which people try models: one file, nothing from elsewhere."""

from __future__ import annotations

import base64
import hashlib
from functools import cache
from importlib.resources import files


@cache
def html() -> bytes:
    """The page."""
    text = _resource("page.html")
    text = text.replace("/* style */", _resource("page.css"))
    return text.replace("/* script */", _resource("page.js")).encode()


@cache
def content_policy() -> str:
    """Scripts and styles by their hash; requests to this server only."""
    script, style = _hash(_resource("page.js")), _hash(_resource("page.css"))
    return (
        f"default-src 'none'; script-src {script}; style-src {style}; connect-src 'self'; "
        "img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    )


def _hash(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def _resource(name: str) -> str:
    return files("plackett.serving.server.page").joinpath(name).read_text(encoding="utf-8")


__all__ = [
    "content_policy",
    "html",
]
