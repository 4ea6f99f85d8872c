r"""The loop that grows trees, stops, and can be taken up again.

LightGBM's own ``train`` turns the wheel: its callbacks set the step before each tree, and after it
measure, keep the state and decide whether to stop. The state of a fit is the text of the model so
far, the learning curves and the best step; everything random is drawn from seed and step, so a fit
taken up from a state goes on as if nothing had happened.

What LightGBM's training loop calls, and what it throws, in our words.

Trees split by least squares with Newton's leaf values, as in RankLib.

LightGBM chooses splits and leaf values by gradient and curvature together. RankLib's LambdaMART
fits each tree to the gradient by least squares,

.. math:: \max_{\text{split}} \frac{(\sum_L g)^2}{n_L} + \frac{(\sum_R g)^2}{n_R},

and then gives each leaf the value :math:`-\sum g / \sum h`. The first is what LightGBM does when
every curvature is 1; the leaf values are set afterwards, which LightGBM's own scores do not see:
so scores are kept here.

Which lists and features a tree sees: a function of seed, step and list, never hidden state.

LightGBM's own bagging of queries does nothing under a custom objective, and its random state is
lost when training is resumed. Here a list takes part in a step if a number drawn from (seed, step,
list key) says so; the others hand zeros to the trainer. Features are drawn by LightGBM from a seed
that is set anew at each step.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from plackett.base.errors import DataError
from plackett.base.kernels import compiled
from plackett.base.ragged import Keys, Offsets, Scores
from plackett.base.random import combine, mix, to_uniform
from plackett.data.dataset import Dataset
from plackett.distributed import WorkerGroup
from plackett.models.ranker import FitContext
from plackett.models.selection import Selection, measure, smooth
from plackett.models.trees.lightgbm_data import lightgbm_data, predicted
from plackett.objectives.objective import GradientFunction

if TYPE_CHECKING:
    from plackett.models.trees.ranker import TreeRanker


@dataclass(eq=False)
class Before:
    """LightGBM calls it before each tree."""

    loop: Loop
    before_iteration = True
    order = 0

    def __call__(self, env: Any) -> None:
        self.loop.begin_step(env.model)


@dataclass(eq=False)
class After:
    """LightGBM calls it after each tree."""

    loop: Loop
    before_iteration = False
    order = 0

    def __call__(self, env: Any) -> None:
        from lightgbm.callback import EarlyStopException

        if not self.loop.end_step(env.model):
            raise EarlyStopException(self.loop.selection.best_step, [])


@contextmanager
def refusals() -> Iterator[None]:
    """Turn LightGBM's errors into ours; most are about labels or features it cannot take."""
    from lightgbm.basic import LightGBMError

    try:
        yield
    except LightGBMError as error:
        if "num_features()) > (0)" in str(error):
            reason = "no feature takes two values often enough to be split; lower min_documents"
            raise DataError(f"there is nothing to learn from: {reason}.") from error
        raise DataError(f"LightGBM refuses the data or a setting: {error}") from error


@dataclass
class NewtonLeaves:
    """The scores of a growing model whose leaf values are Newton's steps."""

    parts: dict[str, Dataset]
    learning_rate: float
    scores: dict[str, Scores] = field(default_factory=dict)
    worker_group: WorkerGroup | None = None
    """Other workers, whose documents are in the same leaves."""
    _last: tuple[NDArray[Any], NDArray[Any]] | None = None

    def __post_init__(self) -> None:
        self.scores = {part: np.zeros(data.n_docs) for part, data in self.parts.items()}

    def begin(self, booster: Any) -> None:
        """Start from an existing model."""
        for part, data in self.parts.items():
            self.scores[part] = predicted(booster.predict, data.features, raw_score=True)

    def squares(
        self, derivatives: GradientFunction, step: int
    ) -> tuple[NDArray[Any], NDArray[Any]]:
        """What LightGBM is given: the gradient, and ones for the curvature."""
        self._last = derivatives(self.scores["train"], step)
        return self._last[0], np.ones_like(self._last[1])

    def refit(self, booster: Any, step: int) -> None:
        """Set the values of the last tree's leaves and add them to the scores."""
        assert self._last is not None
        where = {part: self._leaves(booster, part, step) for part in self.parts}
        n_leaves = self._count(booster, where, step)
        gradient, curvature = (
            np.bincount(where["train"], weights=each, minlength=n_leaves) for each in self._last
        )
        if self.worker_group is not None:
            gradient, curvature = self.worker_group.sum([gradient, curvature])
        values = np.zeros(n_leaves)
        np.divide(-gradient, curvature, out=values, where=curvature > 0)
        values *= self.learning_rate
        for leaf, value in enumerate(values):
            booster.set_leaf_output(step, leaf, value)
        for part, leaves in where.items():
            self.scores[part] += values[leaves]

    def _count(self, booster: Any, where: dict[str, NDArray[np.int64]], step: int) -> int:
        if self.worker_group is None:
            return 1 + max(int(leaf.max()) for leaf in where.values())
        # Documents of the last leaves may all be with other workers.
        (tree,) = booster.dump_model(num_iteration=1, start_iteration=step)["tree_info"]
        return int(tree["num_leaves"])

    def _leaves(self, booster: Any, part: str, step: int) -> NDArray[np.int64]:
        features = self.parts[part].features
        only_last = {"start_iteration": step, "num_iteration": 1}
        found = predicted(booster.predict, features, pred_leaf=True, **only_last)
        return found.astype(np.int64).reshape(-1)


_LISTS = 0x6C69737473  # keeps these draws apart from the noise of objectives with the same seed
_SEEDS = 2**30


def of_some_lists(
    derivatives: GradientFunction, offsets: Offsets, keys: Keys, *, fraction: float, seed: int
) -> GradientFunction:
    """The same derivatives with those of the lists that are not drawn set to zero."""

    def sampled(scores: Any, step: int) -> tuple[Any, Any]:
        gradient, curvature = derivatives(scores, step)
        base = combine(np.uint64(seed % 2**64) ^ np.uint64(_LISTS), np.uint64(step))
        _clear(gradient, curvature, offsets, keys, np.uint64(base), fraction)
        return gradient, curvature

    return sampled


def feature_seed(seed: int, step: int) -> int:
    """A seed for LightGBM's choice of features; two steps in a row never share one."""
    drawn = int(mix(np.uint64(combine(np.uint64(seed % 2**64), np.uint64(step))))) % _SEEDS
    return 2 * drawn + step % 2


@compiled
def _clear(gradient, curvature, offsets, keys, base, fraction):  # type: ignore[no-untyped-def]
    for q in range(len(keys)):
        if to_uniform(combine(base, keys[q])) >= fraction:
            gradient[offsets[q] : offsets[q + 1]] = 0
            curvature[offsets[q] : offsets[q + 1]] = 0


Gradients = Callable[[Scores, Any], tuple[Any, Any]]
"""Scores and LightGBM's data set to gradient and curvature."""

Curves = dict[str, dict[str, list[float]]]
"""Part ("train", "validation") to metric to its mean after each step."""

_EMPTY = 50  # steps in a row without a tree, and the fit is over
MODEL, STATE = "model.txt", "state.json"


@dataclass
class Loop:
    """One fit: what it needs and how far it is."""

    ranker: TreeRanker
    parts: dict[str, Dataset]
    derivatives: GradientFunction | None
    run: FitContext
    leaves: NewtonLeaves | None = None
    """Leaf values of our own; None: LightGBM's."""
    bins: Any = None
    """A LightGBM data set whose bins to take over; None: LightGBM finds its own."""
    booster: Any = None
    step: int = 0
    empty: int = 0
    """Steps that grew no tree."""
    empty_in_a_row: int = 0
    curves: Curves = field(default_factory=dict)
    selection: Selection = field(default_factory=Selection)

    def grow(self, settings: dict[str, Any]) -> Any:
        """Grow trees until there are enough or validation stops improving; LightGBM's booster."""
        from lightgbm import train

        self.curves = {part: {m: [] for m in self.run.metric_names} for part in self.parts}
        before = self._latest()
        if before is not None and self._is_over():
            return before
        data = lightgbm_data(self.ranker, self.parts["train"], self.bins)
        validation = self.parts.get("validation")
        if self.derivatives is not None:
            settings = settings | {"objective": self._objective()}
        with refusals():
            return train(
                settings,
                data,
                num_boost_round=2 * self.ranker.trees
                + _EMPTY,  # more than are left: end_step says when to stop
                valid_sets=[lightgbm_data(self.ranker, validation, data)] if validation else None,
                init_model=before,
                keep_training_booster=True,
                callbacks=[Before(self), After(self)],
            )

    def begin_step(self, booster: Any) -> None:
        """Draw the features of the next tree."""
        self.booster = booster
        if self.derivatives is None:
            self._draw_features()

    def _draw_features(self) -> None:
        if self.ranker.feature_fraction < 1:
            seed = feature_seed(self.ranker.seed, self._draw)
            self.booster.reset_parameter({"feature_fraction_seed": seed})

    def end_step(self, booster: Any) -> bool:
        """Measure, keep the state; whether to go on."""
        if booster.current_iteration() == self.step:
            # No leaf could be split. With other lists or features the next one may be.
            self.empty += 1
            self.empty_in_a_row += 1
            return self._samples and self.empty_in_a_row < _EMPTY
        self.empty_in_a_row = 0
        if self.leaves is not None:
            self.leaves.refit(booster, self.step)
        self.step += 1
        for part, data in self.parts.items():
            means = measure(
                self._scores(booster, part), data, self.run.metrics, self.run.worker_group
            )
            for spelling, mean in zip(self.run.metric_names, means, strict=True):
                self.curves[part][spelling].append(mean)
        self._choose(self.step - self.ranker.smoothing // 2)
        self.run.progress(self._status(), self.step, self.ranker.trees)
        if "validation" in self.curves:
            latest = self.curves["validation"][self.run.metric_names[0]][-1]
            self.run.watch(self.step, self.ranker.trees, latest)
        if self.run.checkpoint is not None and self.run.checkpoint.due():
            with self.run.checkpoint.saving(self.step) as folder:
                self._save(booster, folder)
        return not self._is_over()

    def best_step(self) -> int:
        """Trees to keep: up to the best on validation, or all."""
        self._choose(self.step)
        return self.step if self.selection.best is None else self.selection.best_step + 1

    def _choose(self, until: int) -> None:
        """Offer the steps whose neighbours are known; the last ones have neighbours on one side."""
        curves = list(self.curves.get("validation", {}).values())
        while curves and self.selection.steps < until:
            self.selection.offer(smooth(curves, self.selection.steps, self.ranker.smoothing))

    def _objective(self) -> Gradients:
        """What LightGBM calls; a function, because it copies objects it is given."""
        derivatives, leaves = self.derivatives, self.leaves
        assert derivatives is not None

        def objective(scores: Scores, _: Any) -> tuple[Any, Any]:
            # Here and not before the step: at the first call of a booster LightGBM changes its
            # parameters once more, and with them the state of its generator.
            self._draw_features()
            if leaves is None:
                return derivatives(scores, self._draw)
            return leaves.squares(derivatives, self._draw)

        return objective

    @property
    def _draw(self) -> int:
        """What is random goes by the number of attempts, so that an empty one is not repeated."""
        return self.step + self.empty

    @property
    def _samples(self) -> bool:
        return self.ranker.list_fraction < 1 or self.ranker.feature_fraction < 1

    def _is_over(self) -> bool:
        waiting = (
            self.selection.best is not None
            and self.selection.steps_since_best >= self.ranker.patience
        )
        return waiting or self.step >= self.ranker.trees

    def _scores(self, booster: Any, part: str) -> Scores:
        if self.leaves is not None:
            return self.leaves.scores[part]
        found: list[Scores] = []

        def look(scores: Scores, _: Any) -> tuple[str, float, bool]:
            found.append(scores)
            return "", 0.0, True

        booster.eval_train(look) if part == "train" else booster.eval_valid(look)
        return found[0]

    def _status(self) -> str:
        part = "validation" if "validation" in self.parts else "train"
        name = self.run.metric_names[0]
        return f"trees, {part} {name} {self.curves[part][name][-1]:.4f}"

    def _save(self, booster: Any, folder: Path) -> None:
        (folder / MODEL).write_text(booster.model_to_string(num_iteration=-1))
        chosen = self.selection
        state = {
            "step": self.step,
            "empty": self.empty,
            "curves": self.curves,
            "best": chosen.best,
            "best_step": chosen.best_step,
            "seen": chosen.steps,
        }
        (folder / STATE).write_text(json.dumps(state))

    def _latest(self) -> Any:
        """The booster of the latest state, with everything else set to it; None at the start."""
        from lightgbm import Booster

        latest = None if self.run.checkpoint is None else self.run.checkpoint.latest()
        if latest is None:
            return None
        state = json.loads((latest / STATE).read_text())
        self.step, self.empty, self.curves = state["step"], state["empty"], state["curves"]
        best = None if state["best"] is None else tuple(state["best"])
        self.selection = Selection(best, state["best_step"], state["seen"])
        booster = Booster(model_str=(latest / MODEL).read_text())
        if self.leaves is not None:
            self.leaves.begin(booster)
        return booster
