"""Every objective with its defaults and in further variants, alone and under stochastic scores."""

from __future__ import annotations

import numpy as np
import pytest

from plackett.objectives import OBJECTIVES, Objective, Stochastic, objective

VARIANTS = (
    objective("xendcg", epsilon=0.3, order=1),
    objective("lambdarank", sigma=2.0, truncation=3, score_norm=True, query_norm=True),
    objective("lambdarank", weight="map"),
    objective("lambdarank", weight="err"),
    objective("lambdarank", weight="mrr"),
    objective("lambdaloss", scheme="ndcg1"),
    objective("lambdaloss", scheme="ndcg2"),
    objective("lambdaloss", scheme="lambdarank"),
    objective("urank", window=2),
    objective("umart", window=1),
    objective("umart", window=None, score_norm=False, hess_factor=1.0),
    objective("mle", space="sampled"),
    objective("convexloss-auc", space="sampled", samples=20),
    objective("expgain-ndcg", restarts="many", discount="standard", cutoff=3),
    objective("ranksvm", squared=True),
    objective("boltzrank", mix=0.5, samples=20),
    objective("mdprank", gamma=0.9, discount="standard"),
    objective("lambdaloss", scheme="arp1"),
    objective("lambdaloss", scheme="arp2", sigma=2.0),
    objective("lambdagap", kind="s", cutoff=2),
    objective("circle", gamma=3.0, margin=0.4),
    objective("neuralndcg", tau=0.5, cutoff=3, rounds=5),
    objective("pirank", tau=2.0, cutoff=2),
    objective("pairhinge", margin=0.3),
    objective("ordinal", grades=2, sigma=3.0),
)
PLAIN = (*(definition() for definition in OBJECTIVES), *VARIANTS)
ALL = (*PLAIN, *(Stochastic(plain, samples=3, beta=0.7, seed=1) for plain in PLAIN))


def each(loss_functions) -> pytest.MarkDecorator:
    """Run a test once for each of these objectives."""
    return pytest.mark.parametrize("loss", list(loss_functions), ids=repr)


def random_lists(seed: int, *, spread: float = 1.0):
    """Scores, labels and offsets of ragged lists with tied labels; some have nothing to rank."""
    rng = np.random.default_rng(seed)
    sizes = np.concatenate([[1, 2, 3], rng.integers(1, 13, size=4)])
    offsets = np.concatenate([[0], np.cumsum(sizes)])
    labels = rng.integers(0, 4, size=offsets[-1]).astype(np.float32)
    labels[offsets[2] : offsets[3]] = 1.0  # one level
    return spread * rng.normal(size=offsets[-1]), labels, offsets


def evaluate(loss: Objective, scores, labels, offsets, document_weights=None, **options):
    """Evaluate with fixed keys and step."""
    keys = np.arange(len(offsets) - 1, dtype=np.uint64) + np.uint64(50)
    options = {"keys": keys, "step": 3, "document_weights": document_weights, **options}
    return loss.evaluate(scores, labels, offsets, **options)


def assert_gradient_is_exact(loss, scores, labels, offsets, weights=None, *, documents) -> None:
    """Compare the gradient of some documents with finite differences of the value."""

    def value(at) -> float:
        return float(np.sum(evaluate(loss, at, labels, offsets, weights).values))

    def slope(i: int, h: float) -> float:
        # Five points: exact to h**4, so that only rounding is left.
        e = np.zeros(len(scores))
        e[i] = h
        near = value(scores + e) - value(scores - e)
        far = value(scores + 2 * e) - value(scores - 2 * e)
        return (8 * near - far) / (12 * h)

    gradient = evaluate(loss, scores, labels, offsets, weights).gradient
    close = {"rel": 1e-5, "abs": 1e-6 * (np.abs(gradient).max() + 1.0)}
    for i in documents:
        # Where scores nearly tie, a kink may lie between the points; a smaller step avoids it.
        if gradient[i] != pytest.approx(slope(i, 1e-5), **close):
            assert gradient[i] == pytest.approx(slope(i, 1e-7), **close)


def assert_curvature_bounds_the_hessian(loss, scores, labels, offsets, weights=None, *, documents) -> None:
    """Compare the curvature of some documents with finite differences of the gradient."""
    here = evaluate(loss, scores, labels, offsets, weights)
    h = 1e-4
    for i in documents:
        e = np.zeros(len(scores))
        e[i] = h
        up = evaluate(loss, scores + e, labels, offsets, weights).gradient[i] - here.gradient[i]
        down = here.gradient[i] - evaluate(loss, scores - e, labels, offsets, weights).gradient[i]
        # At a kink of a piecewise linear loss the gradient jumps on one side only.
        if abs(up - down) <= 0.5 * max(abs(up), abs(down)):
            assert (up + down) / (2 * h) <= here.curvature[i] * (1 + 1e-3) + 1e-5
