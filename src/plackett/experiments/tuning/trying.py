"""One trial: fit a ranker on every division and say what it is worth on the validation lists."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from plackett.experiments.protocols import Source
from plackett.experiments.tuning.looks import Looks, Report
from plackett.experiments.tuning.plan import Plan
from plackett.metrics import evaluate
from plackett.models.crossfit import with_threads
from plackett.models.ranker import Progress, Ranker
from plackett.models.recipes.search_spaces import with_settings


class Pruned(Exception):  # noqa: N818 - not an error
    """A trial that is not worth going on with."""


def configured(plan: Plan, settings: dict[str, Any], threads: int | None) -> Ranker:
    """The ranker of a trial."""
    ranker = with_threads(with_settings(plan.ranker, settings), threads)
    return ranker.set_params(seed=plan.seed) if "seed" in ranker.get_params() else ranker


def try_settings(
    ranker: Ranker,
    plan: Plan,
    source: Source,
    *,
    known: Sequence[float] = (),
    keep: Callable[[int, float], None] = lambda *_: None,
    report: Report = lambda *_: None,
    progress: Progress = lambda *_: None,
) -> float:
    """The mean over divisions of the metric on validation lists.

    Parameters
    ----------
    ranker
        Not fitted.
    plan, source
        The search and its data.
    known
        What the first divisions gave when they were tried before.
    keep
        Called with the number of a division and what it gave.
    report
        Called at each look (:mod:`plackett.experiments.tuning.looks`); raises :class:`Pruned` to
        end the trial.
    progress
        As for ``fit``.
    """
    values = list(known)
    count = plan.divisions.count(source)
    for place in range(len(known), count):
        train, validation = plan.divisions(source, place)
        looks = Looks(place, tuple(values), report)
        fitted = ranker.clone().fit(train, validation, plan.metric, progress=progress, watch=looks)
        scores = fitted.predict(validation)
        values.append(evaluate(scores, validation, [plan.judge])[plan.judge])
        keep(place, values[-1])
        looks.close(values[-1], more=place < count - 1)
    return float(np.mean(values))
