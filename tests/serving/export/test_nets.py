"""Neural nets through Solr and ONNX."""

from __future__ import annotations

import numpy as np
import onnxruntime
import pytest

from plackett import NeuralRanker
from plackett.base.errors import UsageError
from plackett.serving.export import export
from serving_models import NAMES, NET, data, documents, fitted, scores
from target_interpreters import solr

torch = pytest.importorskip("torch")

SOLR = ["net", "net-tanh-norm", "net-sigmoid-dropout", "net-flat-norm", "net-crossfit", "net-boosted"]
ONNX = [*SOLR, "net-elu", "net-gelu", "net-silu", "net-impute-missing", "net-rnn", "net-lstm", "net-gru"]


@pytest.mark.parametrize("model", SOLR)
def test_solr_scores_the_same(tmp_path, model) -> None:
    export(fitted(model), tmp_path / "model", "solr")
    X = documents(60, 3)
    actual = solr((tmp_path / "model").read_text(), X, NAMES)
    np.testing.assert_allclose(actual, scores(model, X), rtol=1e-5, atol=1e-5)


def test_boosted_nets_are_several() -> None:
    assert len(fitted("net-boosted").networks_) == 3


@pytest.mark.parametrize("model", ONNX)
def test_onnx_scores_the_same(tmp_path, model) -> None:
    export(fitted(model), tmp_path / "model.onnx", "onnx")
    X = documents(150, 3).copy()
    if model.endswith("missing"):
        X[np.random.default_rng(0).random(X.shape) < 0.2] = np.nan
    session = onnxruntime.InferenceSession(str(tmp_path / "model.onnx"), providers=["CPUExecutionProvider"])
    (actual,) = session.run(None, {"features": X})
    np.testing.assert_allclose(actual[:, 0], scores(model, X), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    ("model", "reason"),
    [
        ("net-elu", "no activation 'elu'"),
        ("net-gelu", "no activation 'gelu'"),
        ("net-rnn", "recurrent cell"),
        ("net-impute-missing", "cannot replace it by another value"),
    ],
)
def test_what_solr_does_not_support_is_refused(tmp_path, model, reason) -> None:
    with pytest.raises(UsageError, match=reason):
        export(fitted(model), tmp_path / "model", "solr")


@pytest.mark.parametrize("form", ["solr", "onnx"])
@pytest.mark.parametrize(("model", "reason"), [("net-attention", "attention"), ("net-groups", "group_size")])
def test_nets_that_see_several_documents_are_refused(tmp_path, model, reason, form) -> None:
    with pytest.raises(UsageError, match=reason):
        export(fitted(model), tmp_path / "model", form)


def _own(*parts: torch.nn.Module) -> NeuralRanker:
    torch.manual_seed(4)
    return NeuralRanker(**NET | {"layers": ()}, module=torch.nn.Sequential(*parts)).fit(data())


WIDE = len(NAMES)
ROWS = {
    "linear": lambda: [torch.nn.Linear(WIDE, 1)],
    "no-bias": lambda: [torch.nn.Linear(WIDE, 3, bias=False), torch.nn.Linear(3, 1)],
    "nested": lambda: [
        torch.nn.BatchNorm1d(WIDE),
        torch.nn.Sequential(torch.nn.Linear(WIDE, 5), torch.nn.ReLU(), torch.nn.Dropout(0.2)),
        torch.nn.Sequential(torch.nn.BatchNorm1d(5, affine=False), torch.nn.Linear(5, 4)),
        torch.nn.Tanh(),
        torch.nn.Identity(),
        torch.nn.Sigmoid(),
        torch.nn.Linear(4, 1),
    ],
    "ends-in-tanh": lambda: [torch.nn.Linear(WIDE, 1), torch.nn.Tanh()],
}


@pytest.mark.parametrize("row", ROWS.values(), ids=ROWS)
def test_modules_of_ones_own_that_are_rows_of_layers_score_the_same(tmp_path, row) -> None:
    ours = _own(*row())
    X = documents(60, 3)
    assert export(ours, tmp_path / "model.onnx", "onnx")
    session = onnxruntime.InferenceSession(str(tmp_path / "model.onnx"), providers=["CPUExecutionProvider"])
    (actual,) = session.run(None, {"features": X})
    np.testing.assert_allclose(actual[:, 0], ours.predict(X), rtol=1e-5, atol=1e-5)
    export(ours, tmp_path / "model.json", "solr")
    actual = solr((tmp_path / "model.json").read_text(), X, NAMES)
    np.testing.assert_allclose(actual, ours.predict(X), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        (lambda: [torch.nn.LayerNorm(WIDE), torch.nn.Linear(WIDE, 1)], "with LayerNorm; .*onnx"),
        (lambda: [torch.nn.Linear(WIDE, 4), torch.nn.ELU(2.0), torch.nn.Linear(4, 1)], "with ELU"),
        (lambda: [torch.nn.ReLU(), torch.nn.Linear(WIDE, 1)], "begins with an activation"),
    ],
    ids=["layer-norm", "elu", "first"],
)
def test_other_modules_of_ones_own_are_refused(tmp_path, row, reason) -> None:
    with pytest.raises(UsageError, match=reason):
        export(_own(*row()), tmp_path / "model", "onnx")
