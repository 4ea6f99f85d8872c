r"""The training loop of boosted trees, with early stopping and checkpoints.

``lightgbm.train`` drives the loop; our callbacks seed each tree, measure the metrics, save the state and stop.
Everything random is drawn from seed and step, so a resumed fit ends in the same model.

**Sampling.** LightGBM's own bagging of queries does nothing under a custom objective, and its random state is lost
when training is resumed. Here a list takes part in a step if a number drawn from (seed, step, list key) is small
enough; the gradients of other lists are set to zero.

**RankLib's trees** (:class:`NewtonLeaves`). RankLib's LambdaMART fits each tree to the gradient by least squares:

.. math:: \max_{\text{split}} \frac{(\sum_L g)^2}{n_L} + \frac{(\sum_R g)^2}{n_R},

LightGBM does this if every curvature is 1. RankLib then gives each leaf the value :math:`-\sum g / \sum h`. LightGBM
does not update its scores for such values, so we keep the scores ourselves.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
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
from plackett.data import Dataset
from plackett.data.canonical import PermutedRows
from plackett.data.large_arrays import allocate, is_large, iter_blocks, release_pages
from plackett.distributed import WorkerGroup
from plackett.models.fit_context import Curves, FitContext, Selection, smooth
from plackett.objectives.objective import GradientFunction

if TYPE_CHECKING:
    from plackett.models.trees.ranker import TreeRanker


_MAX_EMPTY = 50  # steps in a row without a tree after which the fit ends
_MODEL_FILE, _STATE_FILE = "model.txt", "state.json"


@dataclass
class BoostingLoop:
    """One fit: its inputs and its progress."""

    ranker: TreeRanker
    parts: dict[str, Dataset]
    gradients: GradientFunction | None
    """None: LightGBM computes its built-in objective."""
    context: FitContext
    leaves: NewtonLeaves | None = None
    """RankLib's leaf values; None: LightGBM's."""
    bins: Any = None
    """A LightGBM dataset whose bins are used; None: LightGBM finds its own."""
    booster: Any = None
    step: int = 0
    """Trees of the model, with those of the model that the fit started from."""
    first: int = 0
    """Trees of the model that the fit started from."""
    ended_by_callback: bool = False
    empty: int = 0
    """Steps that grew no tree."""
    empty_in_a_row: int = 0
    curves: Curves = field(default_factory=dict)
    selection: Selection = field(default_factory=Selection)

    def run(self, settings: dict[str, Any]) -> Any:
        """Train until ``trees`` or early stopping is reached; return LightGBM's booster."""
        from lightgbm import train

        from plackett.models.trees.lightgbm_data import make_lightgbm_datasets

        self.curves = {part: {m: [] for m in self.context.metric_names} for part in self.parts}
        booster = self._load_latest() or self._load_init()
        if booster is not None and self.leaves is not None:
            self.leaves.restore(booster)
        if booster is not None and self._is_over():
            return booster
        with translate_errors():
            datasets = make_lightgbm_datasets(self.ranker, self.parts, settings, self.bins)
        data = datasets.pop("train")
        if self.gradients is not None:
            settings = settings | {"objective": self._objective()}
        if booster is None:
            _refuse_unsplittable(data, settings)
        with translate_errors():
            return train(
                settings,
                data,
                # More than needed: finish_step decides when to stop.
                num_boost_round=2 * self.ranker.trees + _MAX_EMPTY,
                valid_sets=list(datasets.values()) or None,
                init_model=booster,
                keep_training_booster=True,
                callbacks=[_Callback(self.start_step, True), _Callback(self._end_step, False)],
            )

    def start_step(self, booster: Any) -> None:
        """Prepare the next tree."""
        self.booster = booster
        if self.gradients is None:
            self._seed_features()

    def finish_step(self, booster: Any) -> bool:
        """Measure the metrics and save the state; return whether to continue."""
        if booster.current_iteration() == self.step:
            # No leaf could be split. With other lists or features the next tree may grow.
            self.empty += 1
            self.empty_in_a_row += 1
            samples = self.ranker.list_fraction < 1 or self.ranker.feature_fraction < 1
            return samples and self.empty_in_a_row < _MAX_EMPTY
        self.empty_in_a_row = 0
        if self.leaves is not None:
            self.leaves.refit(booster, self.step)
        self.step += 1
        context = self.context
        for part, data in self.parts.items():
            context.measure(self._scores(booster, part), data, self.curves[part])
        done = self.step - self.first
        self._select(done - self.ranker.smoothing // 2)
        part = "validation" if "validation" in self.parts else "train"
        self.ended_by_callback = context.report(f"trees, {part} ", done, self.ranker.trees, self.curves)
        if context.checkpoint is not None and context.checkpoint.due():
            with context.checkpoint.saving(self.step) as folder:
                self._save(booster, folder)
        return not self._is_over()

    def _end_step(self, booster: Any) -> None:
        from lightgbm.callback import EarlyStopException

        if not self.finish_step(booster):
            raise EarlyStopException(self.selection.best_step, [])

    def best_step(self) -> int:
        """Number of trees to keep: up to the best on validation, or all."""
        self._select(self.step - self.first)
        if self.selection.best is None:
            return self.step
        return self.first + self.selection.best_step + 1

    def _select(self, stop: int) -> None:
        """Compare the steps before ``stop``, whose neighbors are known."""
        curves = list(self.curves.get("validation", {}).values())
        while curves and self.selection.steps < stop:
            self.selection.offer(smooth(curves, self.selection.steps, self.ranker.smoothing))

    def _is_over(self) -> bool:
        waited = self.selection.steps_since_best >= self.ranker.patience
        return waited or self.ended_by_callback or self.step - self.first >= self.ranker.trees

    @property
    def _draw(self) -> int:
        """Number of attempts, which seeds random draws, so that a step without a tree is not repeated identically."""
        return self.step + self.empty

    def _seed_features(self) -> None:
        if self.ranker.feature_fraction < 1:
            seed = feature_seed(self.ranker.seed, self._draw)
            self.booster.reset_parameter({"feature_fraction_seed": seed})

    def _objective(self) -> Callable[[Scores, Any], tuple[Any, Any]]:
        """The function that LightGBM calls; not an object, because LightGBM would copy it."""
        gradients, leaves = self.gradients, self.leaves
        assert gradients is not None

        def objective(scores: Scores, _: Any) -> tuple[Any, Any]:
            # Not earlier: at the first call of a booster, LightGBM sets its parameters again, which
            # resets its random state.
            self._seed_features()
            if leaves is None:
                return gradients(scores, self._draw)
            return leaves.least_squares(gradients, self._draw)

        return objective

    def _scores(self, booster: Any, part: str) -> Scores:
        if self.leaves is not None:
            return self.leaves.scores[part]
        captured: list[Scores] = []

        def capture(scores: Scores, _: Any) -> tuple[str, float, bool]:
            captured.append(scores)
            return "", 0.0, True

        booster.eval_train(capture) if part == "train" else booster.eval_valid(capture)
        return captured[0]

    def _save(self, booster: Any, folder: Path) -> None:
        (folder / _MODEL_FILE).write_text(booster.model_to_string(num_iteration=-1))
        state = {
            "step": self.step,
            "first": self.first,
            "empty": self.empty,
            "curves": self.curves,
            "best": self.selection.best,
            "best_step": self.selection.best_step,
            "seen": self.selection.steps,
        }
        (folder / _STATE_FILE).write_text(json.dumps(state))

    def _load_latest(self) -> Any:
        """Restore the latest state and return its booster; None at the start."""
        from lightgbm import Booster

        checkpoint = self.context.checkpoint
        folder = None if checkpoint is None else checkpoint.latest()
        if folder is None:
            return None
        state = json.loads((folder / _STATE_FILE).read_text())
        self.step, self.empty, self.curves = state["step"], state["empty"], state["curves"]
        self.first = state.get("first", 0)
        best = None if state["best"] is None else tuple(state["best"])
        self.selection = Selection(best, state["best_step"], state["seen"])
        return Booster(model_str=(folder / _MODEL_FILE).read_text())

    def _load_init(self) -> Any:
        """The booster of the model that the fit starts from; None if there is none."""
        if self.context.init is None:
            return None
        booster = self.ranker.init_booster(self.context.init)
        self.step = self.first = booster.current_iteration()
        return booster


@dataclass(eq=False)
class _Callback:
    """A method of the loop that LightGBM calls with its booster, before or after each tree."""

    call: Callable[[Any], None]
    before_iteration: bool
    order: int = 0

    def __call__(self, env: Any) -> None:
        self.call(env.model)


_UNSPLITTABLE = (
    "there is nothing to learn from: no feature takes two values often enough to be split; lower min_documents."
)


def _refuse_unsplittable(data: Any, settings: Mapping[str, Any]) -> None:
    """Raise DataError if no feature can be split, before LightGBM writes to standard error."""
    data._update_params({k: v for k, v in settings.items() if k != "objective"}).construct()
    if not any(data.feature_num_bin(j) > 0 for j in range(data.num_feature())):
        raise DataError(_UNSPLITTABLE)


@contextmanager
def translate_errors() -> Iterator[None]:
    """Turn LightGBM's errors into DataError; most are about labels or features."""
    from lightgbm.basic import LightGBMError

    try:
        yield
    except LightGBMError as error:
        if "num_features()) > (0)" in str(error):
            raise DataError(_UNSPLITTABLE) from error
        raise DataError(f"LightGBM rejects the data or a setting: {error}") from error


class NewtonLeaves:
    """The scores of a growing model whose leaf values are Newton steps.

    Documents of other workers of ``worker_group`` are in the same leaves.
    """

    def __init__(self, parts: dict[str, Dataset], learning_rate: float, worker_group: WorkerGroup | None) -> None:
        self.parts, self.learning_rate, self.worker_group = parts, learning_rate, worker_group
        self.scores: dict[str, Scores] = {part: np.zeros(data.n_docs) for part, data in parts.items()}
        self._derivatives: tuple[NDArray[Any], NDArray[Any]] | None = None

    def restore(self, booster: Any) -> None:
        """Compute the scores of an existing model."""
        for part, data in self.parts.items():
            self.scores[part] = predict_in_blocks(booster.predict, data.features, raw_score=True)

    def least_squares(self, gradients: GradientFunction, step: int) -> tuple[NDArray[Any], NDArray[Any]]:
        """Return what LightGBM gets: the gradient, and 1 for each curvature."""
        self._derivatives = gradients(self.scores["train"], step)
        return self._derivatives[0], np.ones_like(self._derivatives[1])

    def refit(self, booster: Any, step: int) -> None:
        """Set the leaf values of the last tree and add them to the scores."""
        assert self._derivatives is not None
        options = {"pred_leaf": True, "start_iteration": step, "num_iteration": 1}
        leaves = {
            part: predict_in_blocks(booster.predict, data.features, **options).astype(np.int64).reshape(-1)
            for part, data in self.parts.items()
        }
        n_leaves = self._count_leaves(booster, leaves, step)
        gradient, curvature = (
            np.bincount(leaves["train"], weights=values, minlength=n_leaves) for values in self._derivatives
        )
        if self.worker_group is not None:
            gradient, curvature = self.worker_group.sum([gradient, curvature])
        values = np.zeros(n_leaves)
        np.divide(-gradient, curvature, out=values, where=curvature > 0)
        values *= self.learning_rate
        for leaf, value in enumerate(values):
            booster.set_leaf_output(step, leaf, value)
        for part, part_leaves in leaves.items():
            self.scores[part] += values[part_leaves]

    def _count_leaves(self, booster: Any, leaves: dict[str, NDArray[np.int64]], step: int) -> int:
        if self.worker_group is None:
            return 1 + max(int(part_leaves.max()) for part_leaves in leaves.values())
        # The documents of the last leaves may all belong to other workers.
        (tree,) = booster.dump_model(num_iteration=1, start_iteration=step)["tree_info"]
        return int(tree["num_leaves"])


_LISTS = 0x6C69737473  # makes these draws differ from the noise of objectives with the same seed
_SEEDS = 2**30


def sample_lists(
    gradients: GradientFunction, offsets: Offsets, keys: Keys, *, fraction: float, seed: int
) -> GradientFunction:
    """The same gradients, set to zero for the lists that are not drawn at a step."""

    def sampled(scores: Any, step: int, _: Any = None) -> tuple[Any, Any]:
        base = combine(np.uint64(seed % 2**64) ^ np.uint64(_LISTS), np.uint64(step))
        drawn = np.empty(len(keys), np.bool_)
        _draw_lists(keys, np.uint64(base), fraction, drawn)
        gradient, curvature = gradients(scores, step, drawn)
        left_out = np.repeat(~drawn, np.diff(offsets))
        gradient[left_out], curvature[left_out] = 0.0, 0.0
        return gradient, curvature

    return sampled


def feature_seed(seed: int, step: int) -> int:
    """A seed for LightGBM's feature sampling; consecutive steps never share one."""
    draw = int(mix(np.uint64(combine(np.uint64(seed % 2**64), np.uint64(step))))) % _SEEDS
    return 2 * draw + step % 2


@compiled
def _draw_lists(keys, base, fraction, drawn):  # type: ignore[no-untyped-def]
    for q in range(len(keys)):
        drawn[q] = to_uniform(combine(base, keys[q])) < fraction


def predict_in_blocks(predict: Callable[..., Any], features: Any, **options: Any) -> NDArray[np.float64]:
    """The result of LightGBM's ``predict``; for features on disk block by block, into a scratch file."""
    if isinstance(features, PermutedRows):
        return predict_in_blocks(predict, features.matrix, **options)[features.rows]
    if not is_large(features):
        return _to_dense(predict(features, **options))
    out: NDArray[np.float64] | None = None
    for rows in iter_blocks(features):
        block = _to_dense(predict(features[rows], **options))
        if out is None:
            out = allocate(features, (len(features), *block.shape[1:]), np.float64)
        out[rows] = block
        release_pages(out)
    assert out is not None  # a dataset has documents
    return out


def _to_dense(result: Any) -> NDArray[np.float64]:
    dense = result if isinstance(result, np.ndarray) else result.toarray()
    return np.asarray(dense, dtype=np.float64)
