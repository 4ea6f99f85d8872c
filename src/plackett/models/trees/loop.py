"""The loop that grows trees, stops, and can be taken up again.

LightGBM's own ``train`` turns the wheel: its callbacks set the step before each tree, and after it
measure, keep the state and decide whether to stop. The state of a fit is the text of the model so
far, the learning curves and the best step; everything random is drawn from seed and step, so a fit
taken up from a state goes on as if nothing had happened.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from plackett.base.ragged import Scores
from plackett.data.dataset import Dataset
from plackett.models.run import Run
from plackett.models.selection import Selection, measure, smoothed
from plackett.models.trees.callbacks import After, Before, refusals
from plackett.models.trees.feeding import lightgbm_data
from plackett.models.trees.leaves import NewtonLeaves
from plackett.models.trees.sampling import feature_seed
from plackett.objectives.objective import Boosting

if TYPE_CHECKING:
    from plackett.models.trees.ranker import TreeRanker


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
    derivatives: Boosting | None
    run: Run
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

        self.curves = {part: {m: [] for m in self.run.spellings} for part in self.parts}
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
            means = measure(self._scores(booster, part), data, self.run.metrics, self.run.peers)
            for spelling, mean in zip(self.run.spellings, means, strict=True):
                self.curves[part][spelling].append(mean)
        self._choose(self.step - self.ranker.smoothing // 2)
        self.run.progress(self._status(), self.step, self.ranker.trees)
        if "validation" in self.curves:
            latest = self.curves["validation"][self.run.spellings[0]][-1]
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
            self.selection.offer(smoothed(curves, self.selection.steps, self.ranker.smoothing))

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
        waiting = self.selection.best is not None and self.selection.waited >= self.ranker.patience
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
        name = self.run.spellings[0]
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
