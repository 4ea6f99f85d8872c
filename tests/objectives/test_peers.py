"""Values and gradients of other libraries, where they are installed: allRank (PyTorch) and Rax (JAX).

``make test`` installs both. allRank's losses need nothing of its data loading, so the libraries that only this needs
are not installed but replaced by stubs.
"""

from __future__ import annotations

import sys
from functools import partial
from importlib.util import find_spec
from unittest.mock import MagicMock

import numpy as np
import pytest

from plackett.objectives import objective

SEEDS = range(3)
STUBS = ("torchvision", "gcsfs", "attr", "pkg_resources")
IS_INSTALLED = {name: find_spec(name) is not None for name in ("allrank", "rax", *STUBS)}


def _list(seed: int, *, binary: bool = False, distinct: bool = False, single: bool = False):
    rng = np.random.default_rng(seed)
    n = 9  # JAX compiles again for each length
    labels = rng.permutation(n) % 5 if not binary else (rng.random(n) < 0.4).astype(int)
    labels = np.arange(n) if distinct else np.zeros(n, int) if single else labels
    labels[:2] = 0, 1
    return rng.normal(size=n), labels.astype(np.float64)


def _pairs(labels) -> int:
    return int(np.sum(labels[:, None] > labels))


def _check(name, parameters, theirs, factor, seed, *, tolerance=1e-6, **kind) -> None:
    """``theirs`` gives value and gradient, which are those of the objective times ``factor``."""
    scores, labels = _list(seed, **kind)
    ours = objective(name, **parameters).evaluate(scores, labels.astype(np.float32), [0, len(scores)])
    value, gradient = theirs(scores, labels)
    scale = factor(labels)
    assert value == pytest.approx(scale * ours.values[0], rel=tolerance, abs=tolerance)
    assert gradient == pytest.approx(scale * ours.gradient, rel=tolerance, abs=tolerance)


def one(_labels) -> float:
    return 1.0


ALLRANK = {
    "neuralndcg": ("neuralNDCG.neuralNDCG", {"temperature": 1.0}, {"tau": 1.0, "rounds": 50}, one),
    "listnet": ("listNet.listNet", {}, {}, one),
    "approxndcg": ("approxNDCG.approxNDCGLoss", {"alpha": 2.0}, {"eta": 2.0}, one),
    "ranknet": ("rankNet.rankNet", {}, {}, lambda labels: 1.0 / _pairs(labels)),
    "lambdaloss ndcg2": ("lambdaLoss.lambdaLoss", {"weighing_scheme": "ndcgLoss2_scheme"}, {"scheme": "ndcg2"}, one),
    "lambdaloss ndcg2++": (
        "lambdaLoss.lambdaLoss", {"weighing_scheme": "ndcgLoss2PP_scheme"}, {"scheme": "ndcg2++"}, one,
    ),
    "lambdaloss lambdarank": (
        "lambdaLoss.lambdaLoss", {"weighing_scheme": "lambdaRank_scheme"}, {"scheme": "lambdarank"}, one,
    ),
}  # fmt: skip
"""Our name, their function and its arguments, our parameters, and their value over ours."""


@pytest.mark.skipif(not IS_INSTALLED["allrank"], reason="allRank is not installed")
@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("name", ALLRANK)
def test_losses_of_allrank(name, seed, monkeypatch) -> None:
    torch = pytest.importorskip("torch")
    for module in (*STUBS, "torchvision.transforms"):
        if not IS_INSTALLED[module.partition(".")[0]]:
            monkeypatch.setitem(sys.modules, module, MagicMock())
    place, arguments, parameters, factor = ALLRANK[name]
    module, _, function = place.partition(".")
    loss = getattr(pytest.importorskip(f"allrank.models.losses.{module}"), function)
    if module == "lambdaLoss":
        arguments = arguments | {"reduction_log": "natural"}

    def theirs(scores, labels):
        tensor = torch.tensor(scores[None], requires_grad=True, dtype=torch.float32)
        value = loss(tensor, torch.tensor(labels[None], dtype=torch.float32), **arguments)
        (gradient,) = torch.autograd.grad(value, tensor)
        return value.item(), gradient[0].numpy()

    _check(name.split()[0], parameters, theirs, factor, seed, tolerance=1e-4)


RAX = {
    "crossentropy": ("softmax_loss", {}, np.sum, {}),
    "ranknet": ("pairwise_logistic_loss", {}, lambda labels: 1.0 / _pairs(labels), {}),
    "pairhinge": ("pairwise_hinge_loss", {}, one, {}),
    "squared": ("pointwise_mse_loss", {}, lambda labels: 2.0 / len(labels), {}),
    "logistic": ("pointwise_sigmoid_loss", {}, lambda labels: 1.0 / len(labels), {"binary": True}),
    "listmle": ("listmle_loss", {}, one, {"distinct": True}),
    "pairsquared": ("pairwise_mse_loss", {}, lambda labels: 1.0 - 1.0 / len(labels), {"distinct": True}),
    "approxndcg": ("ndcg_metric", {"eta": 2.0}, one, {}),
    "approxmrr": ("mrr_metric", {"eta": 2.0}, one, {"single": True}),
}
"""Our name, their function, our parameters, their value over ours, and the kind of list."""


def _approximate(metric, eta):
    """Minus a metric of Rax at approximate ranks; its own transformation does not run with the newest JAX."""
    import jax
    from rax import utils

    smooth = {"step_fn": lambda x: jax.nn.sigmoid(eta * x)}
    ranks, cutoff = partial(utils.approx_ranks, **smooth), partial(utils.approx_cutoff, **smooth)
    return lambda scores, labels: -metric(scores, labels, rank_fn=ranks, cutoff_fn=cutoff)


@pytest.mark.skipif(not IS_INSTALLED["rax"], reason="Rax is not installed")
@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("name", RAX)
def test_losses_of_rax(name, seed) -> None:
    import jax
    import rax

    place, parameters, factor, kind = RAX[name]
    function = getattr(rax, place)
    if place.endswith("_metric"):
        function = _approximate(function, **parameters)

    def theirs(scores, labels):
        value, gradient = jax.value_and_grad(function)(scores.astype(np.float32), labels)
        return float(value), np.asarray(gradient, np.float64)

    _check(name, parameters, theirs, factor, seed, tolerance=2e-5, **kind)
