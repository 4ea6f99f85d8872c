"""What holds for every export: names, refusals, verification, whole files."""

from __future__ import annotations

import json

import lightgbm
import numpy as np
import onnxruntime
import pytest
import xgboost

import plackett.serving.export as exporting
from plackett import Dataset, TreeRanker
from plackett.base.errors import DataError, UsageError
from plackett.data.transforms import Impute, Log1p, Quantile, Standard, chain
from plackett.models.ensembles import EnsembleRanker
from plackett.serving.export import TARGETS, export, find_target
from plackett.serving.export.boosters import to_json, xgboost_model
from plackett.serving.export.parts import ExportRequest, Part, find_parts
from plackett.serving.export.search_engines import SLACK, subtract_slack
from plackett.serving.export.trees import Trees, undo_transforms
from plackett.serving.export.verify import verify_scores
from serving_models import NAMES, SMALL, data, fitted, probes, scores
from target_interpreters import plugin_xgboost_dump, ranklib, solr, vespa_lightgbm


def stumps(threshold, *, feature=None, n_features=1):
    """One tree of two leaves per threshold."""
    n = len(threshold)
    return Trees(
        n_features=n_features,
        node_offsets=np.arange(n + 1),
        leaf_offsets=2 * np.arange(n + 1),
        feature=np.zeros(n, np.int32) if feature is None else feature.astype(np.int32),
        threshold=np.asarray(threshold, np.float32),
        nan_left=np.zeros(n, np.bool_),
        left=np.full(n, -1, np.int32),
        right=np.full(n, -2, np.int32),
        values=np.arange(2.0 * n),
    )


def any_float32(n, seed=0):
    """Finite float32 numbers of every size and sign."""
    bits = np.random.default_rng(seed).integers(0, 2**32, 2 * n, dtype=np.uint64)
    actual = bits.astype(np.uint32).view(np.float32)
    return actual[np.isfinite(actual) & (np.abs(actual) < 3e38)][:n]


def test_an_unknown_target_lists_the_known_ones(tmp_path) -> None:
    with pytest.raises(UsageError, match=r"no target 'pmml'.* There are: vespa, .*lightgbm-text"):
        export(fitted("trees"), tmp_path / "model", "pmml")


@pytest.mark.parametrize(
    ("program", "model", "target"),
    [
        ("vespa", "trees", "lightgbm-json"),
        ("vespa", "linear", "onnx"),
        ("elasticsearch", "trees", "xgboost-dump"),
        ("elasticsearch", "linear", "elasticsearch-linear"),
        ("opensearch", "trees", "opensearch-xgboost"),
        ("lightgbm", "trees", "lightgbm-text"),
        ("xgboost", "trees", "xgboost-json"),
    ],
)
def test_the_name_of_a_program_selects_the_target_for_the_model(tmp_path, program, model, target) -> None:
    export(fitted(model), tmp_path / "program", program)
    export(fitted(model), tmp_path / "target", target)
    assert (tmp_path / "program").read_bytes() == (tmp_path / "target").read_bytes()


def test_a_program_that_cannot_load_a_kind_of_model_says_so(tmp_path) -> None:
    with pytest.raises(UsageError, match="lightgbm cannot load a linear model; it loads trees"):
        export(fitted("linear"), tmp_path / "model", "lightgbm")


def test_a_model_that_is_not_fitted_is_refused(tmp_path) -> None:
    with pytest.raises(UsageError, match="not fitted yet"):
        export(TreeRanker(), tmp_path / "model", "onnx")


def test_an_unknown_rule_for_missing_values_is_refused(tmp_path) -> None:
    with pytest.raises(UsageError, match='"keep", "zero" or "never"'):
        export(fitted("trees"), tmp_path / "model", "onnx", missing="left")


def test_targets_that_read_zero_get_only_models_that_do(tmp_path) -> None:
    path = tmp_path / "model"
    with pytest.raises(UsageError, match="reads a missing feature as 0"):
        export(fitted("trees-missing"), path, "xgboost-dump", missing="zero")
    export(fitted("trees"), path, "xgboost-dump", missing="zero")
    X = probes("trees", missing=True)
    actual = plugin_xgboost_dump(path.read_text(), np.nan_to_num(X, nan=0.0), NAMES)
    np.testing.assert_allclose(actual, scores("trees", X), rtol=0, atol=2e-6)


@pytest.mark.parametrize(
    ("names", "target", "reason"),
    [
        (["a"] * 6, "solr", "two features are called 'a'"),
        (["a", "b"], "solr", "2 feature names for a model of 6"),
        (["a b", *NAMES[1:]], "lightgbm-text", "contains ' '"),
        (["a:b", *NAMES[1:]], "lightgbm-text", "contains ':'"),
        (["a[0]", *NAMES[1:]], "xgboost-json", r"contains '\['"),
        (["a<b", *NAMES[1:]], "xgboost-ubj", "contains '<'"),
        (["", *NAMES[1:]], "solr", "does not accept the feature name ''"),
    ],
)
def test_names_that_a_target_cannot_hold_are_refused(tmp_path, names, target, reason) -> None:
    with pytest.raises(UsageError, match=reason):
        export(fitted("trees"), tmp_path / "model", target, feature_names=names)


def test_names_that_are_given_replace_the_models(tmp_path) -> None:
    names = ["fieldMatch(title, x)", "attribute(clicks)", "c", "d", "e", "f"]
    export(fitted("trees"), tmp_path / "model", "lightgbm-json", feature_names=names)
    assert json.loads((tmp_path / "model").read_text())["feature_names"] == names


def test_features_without_names_are_numbered_from_one(tmp_path) -> None:
    named = data()
    ids = np.repeat(np.arange(named.n_lists), np.diff(named.offsets))
    plain = Dataset.from_arrays(named.features, named.labels, ids)
    export(TreeRanker(**SMALL).fit(plain), tmp_path / "model", "solr")
    listed = json.loads((tmp_path / "model").read_text())["features"]
    assert [item["name"] for item in listed] == ["f1", "f2", "f3", "f4", "f5", "f6"]


@pytest.mark.parametrize(
    "target", ["lightgbm-text", "lightgbm-json", "xgboost-json", "xgboost-dump", "ranklib", "solr"]
)
def test_a_file_that_scores_differently_is_refused(target) -> None:
    ranker = fitted("trees")
    parts = find_parts(ranker)
    request = ExportRequest(parts, "trees", NAMES, "m", "never")
    doubled = tuple(Part(part.ranker, 2.0, ()) for part in parts)
    wrong = find_target(target).write(ExportRequest(doubled, "trees", NAMES, "m", "never"))
    content = wrong.encode() if isinstance(wrong, str) else wrong
    with pytest.raises(DataError, match="away from the model"):
        verify_scores(ranker, request, find_target(target), content)


def test_one_moved_threshold_is_noticed() -> None:
    ranker = fitted("trees")
    request = ExportRequest(find_parts(ranker), "trees", NAMES, "m", "never")
    model = xgboost_model(request.trees, NAMES)
    tree = model["learner"]["gradient_booster"]["model"]["trees"][0]
    conditions = tree["split_conditions"]
    conditions[0] = np.nextafter(conditions[0], np.float32(-np.inf))
    target = find_target("xgboost-json")
    with pytest.raises(DataError, match="away from the model"):
        verify_scores(ranker, request, target, to_json(model).encode())


def test_a_refused_export_leaves_the_old_file(tmp_path) -> None:
    path = tmp_path / "model"
    path.write_text("old")
    with pytest.raises(UsageError, match="splits on categories"):
        export(fitted("trees-categories"), path, "ranklib")
    assert path.read_text() == "old"
    assert [item.name for item in tmp_path.iterdir()] == ["model"]


ZERO_AS_MISSING = """tree
version=v4
num_class=1
num_tree_per_iteration=1
label_index=0
max_feature_idx=0
feature_names=f
feature_infos=none

Tree=0
num_leaves=2
num_cat=0
split_feature=0
threshold=0.5
decision_type={decision}
left_child=-1
right_child=-2
leaf_value=1 2
is_linear=0
shrinkage=1


end of trees
"""


def test_zeros_against_the_order_of_values_stay_in_lightgbm(tmp_path) -> None:
    """Zero is missing at the one split: decision 6 sends it left, as 0 <= 0.5 does, 4 right."""
    X = np.array([[0.0], [0.25], [0.75], [np.nan]], np.float32)
    along = EnsembleRanker().take(ZERO_AS_MISSING.format(decision=6).encode(), "lightgbm")
    export(along, tmp_path / "model", "lightgbm-json")
    assert vespa_lightgbm((tmp_path / "model").read_text(), X).tolist() == [1, 1, 2, 1]
    against = EnsembleRanker().take(ZERO_AS_MISSING.format(decision=4).encode(), "lightgbm")
    assert against.predict(X).tolist() == [2, 1, 2, 2]
    with pytest.raises(UsageError, match="zero_as_missing"):
        export(against, tmp_path / "model", "onnx")
    export(against, tmp_path / "model", "lightgbm-text")
    assert lightgbm.Booster(model_file=tmp_path / "model").predict(X).tolist() == [2, 1, 2, 2]


@pytest.mark.parametrize("transform", [Standard(), Log1p(), Log1p(clip=1.5), Quantile(20), Impute(), None])
def test_thresholds_before_a_transform_decide_as_after_it(transform) -> None:
    features, offsets = data(missing=True).features, data().offsets
    recipe = chain(Impute("median"), Log1p(), Standard()) if transform is None else transform
    fit = recipe.fit_features(np.asarray(features), offsets)
    rng = np.random.default_rng(0)
    feature = rng.integers(0, 6, 300)
    transformed = np.asarray(fit.apply(np.asarray(features), offsets))
    at = transformed[rng.integers(0, len(features), 300), feature]
    after = stumps(np.nan_to_num(at), feature=feature, n_features=6)
    before = undo_transforms(after, (fit,))
    values = np.concatenate([any_float32(200), [0.0, 1.0, 2.0]])
    inner = np.clip(before.threshold, -1e38, 1e38)  # at the ends there is no next number
    above = np.nextafter(inner, np.float32(np.inf))
    for node in range(300):
        x = np.concatenate([values, [inner[node], above[node]]])
        matrix = np.zeros((len(x), 6), np.float32)
        matrix[:, feature[node]] = x
        moved = np.asarray(fit.apply(matrix, np.array([0, len(x)])))[:, feature[node]]
        expected = moved <= after.threshold[node]
        np.testing.assert_array_equal(x <= before.threshold[node], expected)


def test_solr_thresholds_are_exact_or_refused() -> None:
    wanted = any_float32(2000)
    kept = 0
    for threshold in wanted[np.abs(wanted) > 1e-30]:
        try:
            actual = subtract_slack(stumps([threshold]), ("f",))
        except UsageError:
            assert abs(threshold) < 2.0
            continue
        kept += 1
        assert actual[0] + SLACK == threshold
    assert kept > 1000


def test_solr_splits_at_zero_keep_zero_on_its_side() -> None:
    trees = stumps(np.float32([0.0, 1e-35, -1e-45, -1e-35]))
    effective = subtract_slack(trees, ("f",)) + SLACK
    assert effective[:2].tolist() == [0.0, 0.0]
    assert np.all((effective[2:] < 0) & (effective[2:] > -1.2e-13))


def test_solr_says_which_feature_it_cannot_hold() -> None:
    with pytest.raises(UsageError, match="threshold on feature 'tiny'"):
        subtract_slack(stumps(np.float32([3.3e-9])), ("tiny",))


@pytest.mark.parametrize(
    ("target", "read"),
    [
        ("xgboost-dump", lambda text, X: plugin_xgboost_dump(text, X, ("f",))),
        ("ranklib", ranklib),
        ("lightgbm-json", vespa_lightgbm),
        ("solr", lambda text, X: solr(text, X, ("f",))),
    ],
)
def test_a_tree_as_deep_as_it_has_leaves_is_written(target, read) -> None:
    """400 leaves, each split one level below the other."""
    n = 399
    chain_of_splits = Trees(
        n_features=1,
        node_offsets=np.array([0, n]),
        leaf_offsets=np.array([0, n + 1]),
        feature=np.zeros(n, np.int32),
        threshold=np.arange(n, dtype=np.float32),
        nan_left=np.ones(n, np.bool_),
        left=(-1 - np.arange(n)).astype(np.int32),
        right=np.append(np.arange(1, n), -n - 1).astype(np.int32),
        values=np.arange(n + 1.0),
    )
    part = fitted("stumps")
    X = np.array([[-1.0], [0.0], [0.5], [17.0], [397.5], [398.0], [1e9]], np.float32)
    request = ExportRequest((Part(part, 1.0, ()),), "trees", ("f",), "m", "never")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ExportRequest, "trees", chain_of_splits)
        text = find_target(target).write(request)
    assert read(text, X).tolist() == [0.0, 0.0, 1.0, 17.0, 398.0, 398.0, 399.0]


def test_every_target_names_its_readers_and_the_kinds_of_model() -> None:
    assert len({target.name for target in TARGETS}) == len(TARGETS)
    for target in TARGETS:
        assert target.reader
        assert set(target.kinds) <= {"trees", "linear", "net"}


def test_verification_can_be_left_out(tmp_path, monkeypatch) -> None:
    def fail(*_):
        raise AssertionError("not asked for")

    monkeypatch.setattr(exporting, "verify_scores", fail)
    export(fitted("trees"), tmp_path / "model", "ranklib", verify=False, missing="never")
    X = probes("trees")
    actual = ranklib((tmp_path / "model").read_text(), X)
    np.testing.assert_allclose(actual, scores("trees", X), atol=2e-6)


@pytest.mark.parametrize("target", ["xgboost-json", "xgboost-ubj", "lightgbm-text", "onnx"])
def test_any_threshold_of_float32_decides_exactly(target, tmp_path) -> None:
    """In the target's own runtime, at the threshold and at the next number on either side."""
    wanted = any_float32(600, seed=3)
    if target == "lightgbm-text":
        wanted = wanted[np.abs(wanted) > 1e-34]  # LightGBM takes smaller values for zero
    order = np.argsort(wanted)
    ranker = fitted("stumps").clone()
    ranker.n_features_ = 1
    ranker._set_stumps(np.zeros(len(order), np.int64), wanted[order], np.ones(len(order)))
    path = tmp_path / {"xgboost-json": "m.json", "xgboost-ubj": "m.ubj"}.get(target, "m")
    export(ranker, path, target)
    up, down = np.float32(np.inf), np.float32(-np.inf)
    with np.errstate(under="ignore"):
        sides = [np.nextafter(wanted, up), wanted, np.nextafter(wanted, down)]
    X = np.concatenate(sides)[:, None]
    expected = (wanted < X).sum(axis=1)
    np.testing.assert_array_equal(READ[target](path, X), expected)


READ = {
    "xgboost-json": lambda path, X: _xgboost(path, X),
    "xgboost-ubj": lambda path, X: _xgboost(path, X),
    "lightgbm-text": lambda path, X: lightgbm.Booster(model_file=path).predict(X, num_threads=1),
    "onnx": lambda path, X: _onnx(path, X),
}


def _xgboost(path, X):
    booster = xgboost.Booster({"nthread": 1}, model_file=str(path))
    matrix = xgboost.DMatrix(X, feature_names=["f1"], nthread=1)
    return booster.predict(matrix, output_margin=True)


def _onnx(path, X):
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    return session.run(None, {"features": X})[0][:, 0]
