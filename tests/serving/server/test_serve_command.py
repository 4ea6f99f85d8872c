"""``plackett serve``: what it is started with, and what it says when it cannot."""

from __future__ import annotations

import pytest

pytest.importorskip("granian", reason="pip install 'plackett[serve]'")

from plackett.base.errors import DataError, UsageError
from plackett.cli.serve import serve
from plackett.serving.server import run as running
from server_harness import TOKEN, ask


@pytest.fixture
def started(monkeypatch):
    """Runs the command up to the point where it would listen, and gives the app."""

    result = []
    monkeypatch.setattr(running, "exit_process", lambda: None)
    monkeypatch.setattr(running, "serve_app", lambda app, **_: result.append(app))

    def run(*models, **options):
        serve([str(model) for model in models], port=0, **options)
        return result[-1]

    yield run
    for app in result:
        app.close()


def test_options_reach_the_server(started, saved) -> None:
    app = started(
        f"ours={saved('trees')}", token=TOKEN, max_mb=0.5, max_documents=7, max_lists=3,
        concurrency=5, timeout=2.5, watch=0, grace=1.5, threads=3, quiet=True,
    )  # fmt: skip
    settings, limits = app.settings, app.settings.limits
    assert list(app.registry.catalog.models) == ["ours"]
    assert (limits.body, limits.documents, limits.lists) == (1 << 19, 7, 3)
    assert (limits.concurrency, limits.seconds) == (5, 2.5)
    assert (settings.watch, settings.grace, settings.threads) == (0, 1.5, 3)
    assert settings.token == TOKEN
    assert not settings.log_requests


def test_examples_come_from_a_data_set(started, saved, tmp_path) -> None:
    text = tmp_path / "examples.txt"
    text.write_text("1 qid:1 1:2.5 4:50 # a\n0 qid:1 1:0.5\n0 qid:2 1:1\n")
    app = started(saved("trees"), examples=[text])
    (example,) = ask(app, "GET", "/models/trees/examples").json["examples"]
    assert example["name"] == "query 1"
    actual = dict(zip(example["ids"], example["documents"], strict=True))
    assert actual == {"a": [2.5, 0, 0, 50, 0, 0], "row 2": [0.5, 0, 0, 0, 0, 0]}


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"host": "0.0.0.0"}, "PLACKETT_TOKEN"),
        ({"token": "short"}, "16 printable"),
        ({"max_documents": 0}, "limit on documents"),
        ({"timeout": -1}, "limit on seconds"),
    ],
)
def test_what_cannot_be_meant_is_refused(started, saved, options, reason) -> None:
    with pytest.raises(UsageError, match=reason):
        started(saved("trees"), **options)


def test_what_is_no_model_is_refused(started, tmp_path) -> None:
    with pytest.raises(DataError, match="does not exist"):
        started(tmp_path / "none.plackett")
    with pytest.raises(DataError, match="holds no model"):
        started(tmp_path)
