"""What a search found."""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from plackett.base.errors import UsageError
from plackett.experiments.tuning.plan import Plan
from plackett.models.ranker import Ranker

if TYPE_CHECKING:
    from plackett.experiments.tuning.study import Study

State = Literal["finished", "pruned", "failed"]
_STATES: dict[str, State] = {"COMPLETE": "finished", "PRUNED": "pruned", "FAIL": "failed"}
_LEAST = 4  # finished trials before importance says anything


@dataclass(frozen=True)
class Tried:
    """One trial."""

    number: int
    """From 0, in the order in which trials were begun."""
    settings: Mapping[str, Any]
    value: float | None
    """Mean of the metric on validation lists; of a pruned trial what it had reached."""
    state: State
    seconds: float
    reason: str = ""
    """Why it failed."""


@dataclass(frozen=True, eq=False)
class Tuned:
    """A search that is done."""

    plan: Plan
    study: str
    """Its name in the store, for Optuna's own tools."""
    trials: tuple[Tried, ...]
    own: float
    """What the recipe's own settings give."""
    settings: Mapping[str, Any]
    """The best ones; empty where no trial was better than the recipe's own."""
    value: float
    """What they give: the mean over divisions of the metric on validation lists."""
    importance: Mapping[str, float]
    """By parameter, the most important first; sums to 1. Empty with too few trials."""
    ran: int
    """Trials that were run now; the others were in the store."""
    ranker: Ranker | None = None
    """The model with the best settings; None if it was not asked for."""

    @property
    def best(self) -> Tried | None:
        """The best trial; None where the recipe's own settings are best."""
        finished = [each for each in self.trials if each.state == "finished"]
        found = max(finished, key=lambda each: each.value or 0.0, default=None)
        return found if self.settings else None

    def to_dict(self) -> dict[str, Any]:
        """Plain data, for JSON."""
        counts = {state: sum(t.state == state for t in self.trials) for state in _STATES.values()}
        return {
            "recipe": self.plan.name,
            "metric": self.plan.judge,
            "study": self.study,
            "settings": dict(self.settings),
            "value": self.value,
            "recipe_value": self.own,
            "space": {name: str(each) for name, each in self.plan.space.items()},
            "importance": dict(self.importance),
            "trials": [vars(each) | {"settings": dict(each.settings)} for each in self.trials],
            "counts": counts,
            "ran": self.ran,
        }


def gather(study: Study, count: int, *, ran: int) -> Tuned:
    """Read what a search found."""
    from plackett.experiments.tuning.study import reason_of

    tried = tuple(
        Tried(
            frozen.number,
            study.settings(frozen),
            frozen.value,
            _STATES[frozen.state.name],
            frozen.duration.total_seconds(),
            reason_of(frozen),
        )
        for frozen in study.trials()[:count]
    )
    own = study.own
    assert own is not None
    finished = [each for each in tried if each.state == "finished" and each.value is not None]
    # Of equal ones the earlier: a search that goes on changes its mind only for something better.
    best = max(finished, key=lambda each: (each.value, -each.number), default=None)
    if best is None and not math.isfinite(own):
        raise UsageError("no trial was brought to an end.")
    wins = best is not None and best.value is not None and best.value > own
    return Tuned(
        study.plan,
        study.name,
        tried,
        own,
        best.settings if wins and best is not None else {},
        best.value if wins and best is not None and best.value is not None else own,
        _importance(study, finished),
        ran,
    )


def _importance(study: Study, finished: list[Tried]) -> dict[str, float]:
    """Share of each parameter in the differences between trials (PED-ANOVA, Watanabe 2023)."""
    from optuna.importance import get_param_importances

    if len(finished) < _LEAST or len({each.value for each in finished}) == 1:
        return {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of trials without a value, which we know of
        found: dict[str, float] = get_param_importances(study.optuna)
    return dict(sorted(found.items(), key=lambda item: -item[1]))
