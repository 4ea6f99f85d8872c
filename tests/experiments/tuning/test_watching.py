"""Whoever watches a fit is told the metric on validation after each step, and may end the fit."""

from __future__ import annotations

import numpy as np
import pytest

import plackett as pk


class _Enough(Exception):  # noqa: N818 - not an error
    pass


def _ranker(kind: str):
    if kind == "net":
        pytest.importorskip("torch")
        return pk.NeuralRanker(layers=(4,), epochs=3, patience=3)
    return {
        "trees": pk.TreeRanker(trees=4, leaves=4, patience=4),
        "stumps": pk.StumpRanker(rounds=4, patience=4),
        "linear": pk.LinearRanker(C=(0.1, 1.0, 10.0)),
    }[kind]


@pytest.fixture(scope="module")
def parts():
    return pk.split(pk.synthetic("letor", n_lists=40, seed=1), (0.5, 0.5))


@pytest.mark.parametrize("kind", ["trees", "stumps", "linear", "net"])
def test_every_step_is_told_with_its_metric(kind, parts) -> None:
    told: list[tuple[int, int, float]] = []
    ranker = _ranker(kind).fit(*parts, metric="ndcg@10,map", watch=lambda *at: told.append(at))
    steps = [done for done, _, _ in told]
    assert steps == list(range(1, len(steps) + 1))
    assert len({total for _, total, _ in told}) == 1
    assert steps[-1] <= told[0][1]
    if kind == "linear":
        kept = [item.means[0] for item in ranker.trials_ if item.means is not None]
    else:
        kept = ranker.curves_["validation"]["ndcg@10"]
    np.testing.assert_allclose([mean for _, _, mean in told], kept)


@pytest.mark.parametrize("kind", ["trees", "stumps", "linear", "net"])
def test_what_a_watcher_raises_ends_the_fit_and_leaves_no_half_of_a_model(kind, parts) -> None:
    def stop(done: int, total: int, mean: float) -> None:  # noqa: ARG001
        if done == 2:
            raise _Enough

    ranker = _ranker(kind)
    with pytest.raises(_Enough):
        ranker.fit(*parts, watch=stop)
    assert ranker.n_features_ is None


@pytest.mark.parametrize("kind", ["trees", "stumps", "linear", "net"])
def test_without_validation_nobody_is_told(kind, parts) -> None:
    told: list[float] = []
    _ranker(kind).fit(parts[0], watch=lambda *at: told.append(at[2]))
    assert told == []
