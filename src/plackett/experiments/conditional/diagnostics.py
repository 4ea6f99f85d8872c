r"""How the sampler affects learning: what Figures 4 to 8 of Dubey et al. (2009) show.

=========  ==================================================================================
figure     function
=========  ==================================================================================
4          :func:`accuracy_of_samplers` over ``samples``: accuracy saturates
5          the same over ``best``, the probability of the ideal ranking as restart
6          the same with ``restarts="many"`` over ``skew``
7          :func:`smear`: losses of the rankings reached from a restart
8          :func:`dynamics`: :math:`w \cdot \phi` against the loss as w evolves, and the
           sampled objective beside the exact one
=========  ==================================================================================
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from plackett.base.errors import UsageError
from plackett.data.dataset import Dataset
from plackett.data.folds import Fold
from plackett.metrics import Metric, evaluate
from plackett.models.linear import GRID, LinearRanker
from plackett.models.linear.lbfgs import minimise
from plackett.models.linear.loss import DenseLoss, RankingLoss
from plackett.objectives import objective
from plackett.objectives.conditional.rankings import GainName, gain_of
from plackett.objectives.conditional.sampler import mutate, restart, start_walk


def accuracy_of_samplers(
    folds: Sequence[Fold],
    samplers: Mapping[str, Mapping[str, Any]],
    *,
    name: str = "convexloss-ndcg",
    metrics: Sequence[str | Metric] = ("ndcg@10", "map"),
    select: str | Metric = "map",
    C: float | tuple[float, ...] = GRID,
) -> dict[str, dict[str, float]]:
    """Mean accuracy on the test lists for each way to sample.

    Parameters
    ----------
    folds
        The data.
    samplers
        Parameters of the objective by a name for them, such as ``{"50": {"samples": 50}}``.
    name
        The objective.
    metrics
        What to measure on the test lists.
    select, C
        What C is chosen by on the validation lists, and among what.
    """
    found: dict[str, dict[str, float]] = {}
    for label, parameters in samplers.items():
        loss = objective(name, **parameters)
        means: list[dict[str, float]] = []
        for fold in folds:
            ranker = LinearRanker(objective=loss, C=C)
            scores = ranker.fit(fold.train, fold.validation, metric=select).predict(fold.test)
            means.append(evaluate(scores, fold.test, list(metrics)))
        found[label] = {m: float(np.mean([each[m] for each in means])) for m in means[0]}
    return found


def smear(
    n_goods: int,
    n_bads: int,
    *,
    above: int,
    walk: int = 10,
    walks: int = 100,
    gain: GainName = "map",
    key: int = 0,
) -> NDArray[np.float64]:
    """Losses of all rankings visited by walks from one restart.

    Parameters
    ----------
    n_goods, n_bads
        Numbers of relevant and irrelevant documents.
    above
        How many of the irrelevant stand above all relevant ones at the restart: 0 is the ideal
        ranking, ``n_bads`` the worst.
    walk, walks
        Mutations of a walk, and number of walks.
    gain
        The loss is one minus this gain.
    key
        Source of randomness.
    """
    if not 0 <= above <= n_bads:
        raise UsageError(f"above must lie between 0 and n_bads={n_bads}, got {above}.")
    state = start_walk(n_goods, n_bads)
    rng = np.random.default_rng(key)
    losses = np.empty((walks, walk + 1))
    for w in range(walks):
        words = rng.integers(0, 2**63, walk + 1).astype(np.uint64)
        restart(state, above, words[0])
        losses[w, 0] = 1.0 - gain_of(state.state.good_wins, n_bads, gain=gain)
        for step in range(walk):
            mutate(state, words[step + 1])
            losses[w, step + 1] = 1.0 - gain_of(state.state.good_wins, n_bads, gain=gain)
    return losses


@dataclass(frozen=True)
class Dynamics:
    """An objective over sampled rankings as the weights evolve from zero."""

    losses: NDArray[np.float64]
    """Loss of each ranking looked at, fixed."""
    compatibilities: NDArray[np.float64]
    """w . (phi of the ranking - phi of the ideal one): iterations x rankings, from w = 0 on."""
    sampled: NDArray[np.float64]
    """The sampled objective after each iteration, without the penalty."""
    exact: NDArray[np.float64] | None
    """The closed form over all sign vectors at the same weights, where there is one."""


def dynamics(
    data: Dataset,
    *,
    name: str = "convexloss-ndcg",
    C: float = 1e-3,
    iterations: int = 10,
    lists: int = 10,
    rankings: int = 10,
    seed: int = 0,
) -> Dynamics:
    """Follow the optimiser for some iterations and look at some rankings of some lists.

    Parameters
    ----------
    data
        The training lists.
    name
        A conditional model; those for AUC, and MLE, have a closed form to compare with.
    C, iterations
        The penalty; iterations of the optimiser.
    lists, rankings
        How many lists to look at, and how many rankings of each.
    seed
        Which ones.
    """
    loss = RankingLoss(objective(name, space="sampled"), data)
    closed = None
    if name == "mle" or name.endswith("-auc"):
        closed = DenseLoss(objective(name, space="cube"), data)
    chosen = _choose(loss, lists, rankings, seed)
    weights = np.zeros(data.n_features)
    seen, sampled, exact = [], [], []
    for step in range(iterations + 1):
        if step:
            found = minimise(loss, weights, C=C, max_iterations=1, tolerance=0.0)
            weights = found.weights
        seen.append(loss.products[chosen].astype(np.float64) @ weights)
        sampled.append(loss.evaluate(weights)[0])
        if closed is not None:
            exact.append(closed.evaluate(weights)[0])
    known = None if closed is None else np.array(exact)
    return Dynamics(loss.losses[chosen], np.array(seen), np.array(sampled), known)


def _choose(loss: RankingLoss, lists: int, rankings: int, seed: int) -> NDArray[np.int64]:
    """Positions of some rankings of some lists."""
    rng = np.random.default_rng(seed)
    where = loss.ranking_offsets
    usable = np.flatnonzero(np.diff(where) > 0)
    picked = rng.choice(usable, min(lists, len(usable)), replace=False)
    parts = [
        rng.choice(np.arange(where[q], where[q + 1]), min(rankings, where[q + 1] - where[q]), False)
        for q in np.sort(picked)
    ]
    return np.concatenate(parts)
