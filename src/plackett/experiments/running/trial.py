"""One trial: learn, rank the test lists, measure."""

from __future__ import annotations

import time
from collections.abc import Sequence

from plackett.experiments.protocols import Trial
from plackett.experiments.store import Outcome
from plackett.experiments.store.outcome import Curves
from plackett.metrics import per_list
from plackett.models.ranker import Progress, Ranker, silent


def run_trial(
    ranker: Ranker,
    trial: Trial,
    *,
    metrics: Sequence[str],
    select: str,
    progress: Progress = silent,
) -> Outcome:
    """Fit the ranker on the trial's training lists and measure it on its test lists.

    Parameters
    ----------
    ranker
        Not fitted; it is changed.
    trial
        The data.
    metrics
        What to measure on the test lists.
    select
        What the model is chosen by on the validation lists.
    progress
        Called after each step of the fit.
    """
    start = time.perf_counter()
    ranker.fit(trial.train, trial.validation, select, progress=progress)
    seconds = time.perf_counter() - start
    scores = ranker.predict(trial.test)
    return Outcome(per_list(scores, trial.test, metrics), scores, seconds, curves_of(ranker))


def curves_of(ranker: Ranker) -> Curves:
    """How metrics rose during training; empty for models without steps."""
    return {
        part: {name: [float(mean) for mean in means] for name, means in by_name.items()}
        for part, by_name in vars(ranker).get("curves_", {}).items()
    }
