"""What clients get: right scores for every kind of model, and reasons instead of failures."""

from __future__ import annotations

import re

import numpy as np
import pytest

pytest.importorskip("starlette", reason="pip install 'plackett[serve]'")

from plackett.base.errors import FeatureMismatch
from plackett.serving.server import Examples, make_app
from server_harness import app_of, ask
from serving_models import NAMES, documents, fitted

KINDS = (
    "trees",
    "trees-missing",
    "trees-categories",
    "trees-standard",
    "trees-crossfit",
    "stumps",
    "linear",
    "linear-minmax",
    "linear-impute-missing",
    "linear-crossfit-list",
)
NETS = ("net", "net-attention", "net-groups")
X = documents(30, seed=3)


def rank(app, body, path="/rank", **options):
    return ask(app, "POST", path, body, **options)


@pytest.fixture(scope="module")
def app(saved):
    with app_of({"trees": saved("trees"), "linear": saved("linear")}) as created:
        yield created


def check_scores(name, path):
    expected = [fitted(name).predict(part) for part in (X[:20], X[20:])]
    with app_of({"m": path}) as app:
        single = rank(app, {"documents": X[:20].tolist()}).json
        named = [dict(zip(NAMES, row, strict=True)) for row in X[20:].tolist()]
        batch = rank(app, {"lists": [{"documents": X[:20].tolist()}, {"documents": named}]}).json
    assert single["scores"] == batch["lists"][0]["scores"] == expected[0].tolist()
    assert batch["lists"][1]["scores"] == expected[1].tolist()
    for part, scores in zip(batch["lists"], expected, strict=True):
        assert part["order"] == np.argsort(-scores, kind="stable").tolist()


@pytest.mark.parametrize("name", KINDS)
def test_scores_are_those_of_predict_to_the_bit(name, saved) -> None:
    check_scores(name, saved(name))


@pytest.mark.parametrize("name", NETS)
def test_scores_of_nets_are_those_of_predict(name, saved) -> None:
    pytest.importorskip("torch")
    check_scores(name, saved(name))


def test_ids_come_back_in_the_order_of_the_ranking(app) -> None:
    actual = rank(app, {"documents": X[:3].tolist(), "ids": ["a", "b", 3], "top": 2}).json
    assert actual["ids"] == [["a", "b", 3][i] for i in actual["order"]]
    assert len(actual["order"]) == 2
    assert len(actual["scores"]) == 3


def test_equal_documents_keep_their_order(app) -> None:
    actual = rank(app, {"documents": [X[0].tolist()] * 5}).json
    assert actual["order"] == [0, 1, 2, 3, 4]


def test_compact_bodies_and_answers(app) -> None:
    body = X.astype("<f4").tobytes()
    kind = "application/octet-stream"
    expected = fitted("trees").predict(X)
    headers = {"x-list-sizes": "20,10"}
    result = rank(app, body, kind=kind, headers=headers)
    scores = [score for part in result.json["lists"] for score in part["scores"]]
    assert scores == expected.tolist()
    raw = rank(app, body, kind=kind, headers={"accept": kind})
    assert np.frombuffer(raw.body, "<f8").tolist() == expected.tolist()
    assert raw.headers["x-version"] == result.json["version"]


def test_models_and_versions_are_found_by_name(app) -> None:
    models = ask(app, "GET", "/models").json["models"]
    assert [model["name"] for model in models] == ["trees", "linear"]
    version = models[1]["version"]
    about = ask(app, "GET", f"/models/linear/versions/{version}").json
    assert about["features"] == list(NAMES)
    assert about["kind"] == "LinearRanker"
    body = {"documents": X.tolist()}
    actual = rank(app, body, f"/models/linear/versions/{version}/rank").json
    assert (actual["model"], actual["version"]) == ("linear", version)
    assert actual["scores"] == fitted("linear").predict(X).tolist()
    assert "there are: trees, linear" in rank(app, body, "/models/x/rank").detail
    lost = rank(app, body, "/models/linear/versions/0/rank")
    assert (lost.status, version in lost.detail) == (404, True)


def test_missing_features_are_refused_by_models_that_take_none(app) -> None:
    row = [None, *X[0, 1:].tolist()]
    assert rank(app, {"documents": [row]}, "/models/trees/rank").status == 200
    result = rank(app, {"documents": [X[0].tolist(), row]}, "/models/linear/rank")
    assert result.status == 422
    assert "document 1" in result.detail
    assert "'bm25'" in result.detail
    assert not ask(app, "GET", "/models/linear").json["takes_missing"]


def test_scores_beyond_all_numbers_are_refused(saved) -> None:
    pytest.importorskip("torch")
    with app_of({"m": saved("net")}) as app:
        result = rank(app, {"documents": [[3e38] * 6, [-3e38] * 6]})
    assert result.status in (200, 422)
    assert b"null" not in result.body


@pytest.mark.parametrize(
    ("method", "path", "options", "status", "reason"),
    [
        ("GET", "/nothing", {}, 404, "openapi"),
        ("GET", "/rank", {}, 405, "only POST"),
        ("POST", "/models", {}, 405, "GET, HEAD"),
        ("OPTIONS", "/rank", {}, 405, "only POST"),
        ("GET", "/models/\udcff", {}, 404, "no model"),
        ("GET", "/models/" + "x" * 3000, {}, 404, "no model"),
        ("POST", "/rank", {"kind": "text/plain"}, 415, "content-type"),
        ("POST", "/rank", {"kind": ""}, 415, "content-type"),
        ("POST", "/rank", {"headers": {"content-encoding": "gzip"}}, 415, "compressed"),
        ("POST", "/explain", {"headers": {"accept": "application/octet-stream"}}, 406, "JSON|json"),
        ("GET", "/models", {"headers": {"host": "evil.example"}}, 403, "localhost"),
        ("GET", "/models", {"headers": {"host": ""}}, 403, "localhost"),
        ("POST", "/admin/reload", {}, 403, "needs a token"),
    ],
)
def test_wrong_requests_get_a_reason(app, method, path, options, status, reason) -> None:
    result = ask(app, method, path, b"{}", **options)
    assert result.status == status
    assert result.headers["content-type"] == "application/problem+json"
    assert re.search(reason, result.detail)
    assert result.json["status"] == status


def test_local_names_are_served_without_a_token(app) -> None:
    for host in ("localhost", "LOCALHOST:8000", "127.0.0.1:1", "[::1]:8000"):
        assert ask(app, "GET", "/models", headers={"host": host}).status == 200


def test_head_has_no_body(app) -> None:
    result = ask(app, "HEAD", "/health")
    assert (result.status, result.body) == (200, b"")
    assert int(result.headers["content-length"]) > 0


# ---- explanations and examples ------------------------------------------------------------------


def test_contributions_of_trees_sum_to_the_score(app) -> None:
    actual = rank(app, {"documents": X.tolist()}, "/models/trees/explain").json
    assert actual["method"] == "shap"
    sums = np.sum(actual["contributions"], axis=1) + actual["base"]
    assert sums == pytest.approx(np.array(actual["scores"]), abs=1e-9)


def test_contributions_of_linear_models_sum_to_the_score(app) -> None:
    actual = rank(app, {"lists": [{"documents": X.tolist()}]}, "/models/linear/explain").json
    assert actual["method"] == "weights"
    part = actual["lists"][0]
    assert np.sum(part["contributions"], axis=1) == pytest.approx(np.array(part["scores"]), abs=1e-5)


@pytest.mark.parametrize("name", ["stumps-missing", "linear-minmax", "linear-crossfit", "net"])
def test_other_models_are_explained_by_steps_weights_or_replacement(name, saved) -> None:
    features = X[:8].copy()
    features[2, 3] = np.nan if name == "stumps-missing" else 1.0
    rows = [[None if np.isnan(v) else float(v) for v in row] for row in features]
    with app_of({"m": saved(name)}) as app:
        actual = rank(app, {"documents": rows}, "/explain").json
    method = "replacement" if name == "net" else "weights"
    assert actual["method"] == method
    if method == "weights":
        assert np.sum(actual["contributions"], axis=1) == pytest.approx(actual["scores"], abs=1e-5)
    if method == "replacement":
        changed = features.copy()
        changed[:, 0] = np.median(features[:, 0])
        ranker = fitted(name)
        expected = ranker.predict(features) - ranker.predict(changed)
        assert np.array(actual["contributions"])[:, 0] == pytest.approx(expected)
        assert not np.array(actual["contributions"])[:, 5].any()  # always one


def test_examples_are_made_up_or_real(saved) -> None:
    from serving_models import data

    models = {"trees": saved("trees"), "linear": saved("linear")}
    with app_of(models) as app:
        for name in models:
            actual = ask(app, "GET", f"/models/{name}/examples").json
            assert actual["made_up"]
            example = actual["examples"][0]
            body = {"documents": example["documents"], "ids": example["ids"]}
            scores = rank(app, body, f"/models/{name}/rank").json["scores"]
            assert len(set(scores)) > 2
    with app_of(models, examples=Examples(data())) as app:
        actual = ask(app, "GET", "/models/trees/examples").json
        assert not actual["made_up"]
        assert actual["examples"][0]["name"].startswith("query ")


def test_examples_must_fit_some_model(saved) -> None:
    import plackett as pk

    examples = Examples(pk.synthetic("letor", n_lists=3))
    with pytest.raises(FeatureMismatch, match="the models have 6"):
        make_app([str(saved("trees"))], examples=examples)
