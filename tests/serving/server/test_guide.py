"""The guide says what the server does: routes, limits and their defaults."""

from __future__ import annotations

import inspect
import json
import re
from pathlib import Path

import pytest

pytest.importorskip("starlette", reason="pip install 'plackett[serve]'")

from plackett.cli.serve import serve
from plackett.models.insight import NOTES
from plackett.serving.server import Limits, Settings
from plackett.serving.server.app import OPERATIONS
from server_harness import app_of, ask

GUIDE = Path(__file__).resolve().parents[3] / "docs" / "guide" / "serve.md"

pytestmark = pytest.mark.skipif(not GUIDE.is_file(), reason="not run from a checkout")


def test_every_route_is_listed() -> None:
    text = GUIDE.read_text()
    listed = text.replace("NAME", "{model}").replace("VERSION", "{version}")
    for route in OPERATIONS:
        if not route.is_described:
            continue
        if route.action == "explain":
            assert "POST .../explain" in text
        elif route.path not in ("/", "/openapi.json", "/models/{model}/versions/{version}"):
            assert f"{route.method} {route.path}`" in listed, route
        else:
            assert f"`{route.path}`" in listed or route.action == "model"
    assert all(f"`{method}`" in text for method in NOTES)


def test_limits_and_their_defaults_are_right() -> None:
    rows = re.findall(r"^\| `--([\w-]+)`.*? \| ([\d,]+) \|", GUIDE.read_text(), re.M)
    told = {name: int(number.replace(",", "")) for name, number in rows}
    limits = Limits()
    assert told == {
        "max-mb": limits.body >> 20,
        "max-documents": limits.documents,
        "max-lists": limits.lists,
        "concurrency": limits.concurrency,
        "timeout": limits.seconds,
    }
    inputs = {name: item.default for name, item in inspect.signature(serve).parameters.items()}
    for option, number in told.items():
        assert inputs[option.replace("-", "_")] == number
    settings = Settings()
    for name in ("host", "port", "watch", "grace"):
        assert inputs[name] == getattr(settings, name)


def test_the_first_example_is_answered_in_the_form_that_is_shown(saved) -> None:
    text = GUIDE.read_text()
    body = json.loads(re.search(r"-d '\n\s*(\{.*?\})'", text, re.S).group(1))
    shown = json.loads(re.search(r"```json\n(.*?)\n```", text, re.S).group(1))
    with app_of({"ours": saved("trees")}) as app:
        result = ask(app, "POST", "/rank", body | {"absent": "missing"})
    assert result.status == 200
    assert list(result.json) == list(shown)
    assert sorted(shown["ids"]) == sorted(body["ids"])
