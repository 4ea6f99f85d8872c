"""How much is spent on a reproduction: the paper's settings, or less of it, said in words."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from plackett.models import RECIPES, recipe
from plackett.models.ranker import Ranker

_QUICK_TREES: dict[str, Any] = {
    "trees": 25,
    "learning_rate": 0.15,
    "leaves": 15,
    "min_documents": 20,
    "patience": 15,
    "lightgbm": {"max_bin": 63},
}
_QUICK_NETS: dict[str, Any] = {
    "layers": (64, 32),
    "epochs": 15,
    "patience": 5,
    "batch_lists": 16,
    "learning_rate": 0.005,
    "learners": 2,
}
_QUICK_LINEAR: dict[str, Any] = {"C": (1e-5, 1e-3, 1e-1, 10.0), "rounds": 50}


@dataclass(frozen=True)
class Budget:
    """What a reproduction may cost.

    Parameters
    ----------
    quick
        Small models, few trials and few lists.
    trials
        Instead of the paper's number of repeated trials.
    settings
        Parameters to change in every system that has them.
    seed
        Of divisions, models and synthetic data.
    """

    quick: bool = False
    trials: int | None = None
    settings: Mapping[str, Any] = field(default_factory=dict)
    seed: int = 0

    def ranker(self, name: str, preset: str | None = None, **own: Any) -> Ranker:
        """A recipe as the paper set it, or cut.

        Parameters
        ----------
        name
            Of a recipe.
        preset
            The paper's settings for the data; left out where the recipe has none of that name.
        own
            What this paper has different.
        """
        known = preset if preset in RECIPES[name].presets else None
        ranker = recipe(name, preset=known, **own)
        return self.cut(ranker)

    def cut(self, ranker: Ranker) -> Ranker:
        """The ranker with what this budget changes."""
        has = ranker.get_params()
        if self.quick:
            small = _QUICK_TREES if "trees" in has else _QUICK_NETS
            small = small if "trees" in has or "layers" in has else _QUICK_LINEAR
            ranker.set_params(**{k: v for k, v in small.items() if k in has})
        return ranker.set_params(**{k: v for k, v in self.settings.items() if k in has})

    def count(self, paper: int, quick: int) -> int:
        """Trials of a protocol that repeats."""
        return self.trials or (quick if self.quick else paper)

    def words(self) -> tuple[str, ...]:
        """What differs from the papers, a sentence each; nothing if nothing does."""
        found = []
        if self.quick:
            found.append(
                "QUICK: few lists, few trials, and small models (at most "
                f"{_QUICK_TREES['trees']} trees of {_QUICK_TREES['leaves']} leaves, nets of layers "
                f"{_QUICK_NETS['layers']} for {_QUICK_NETS['epochs']} epochs, four values of C). "
                "It shows how the results look, not what they are."
            )
        if self.trials:
            found.append(f"{self.trials} trials where the paper repeats, whatever it has.")
        if self.settings:
            changed = ", ".join(f"{key} = {value}" for key, value in self.settings.items())
            found.append(f"Settings changed in every system that has them: {changed}.")
        return tuple(found)
