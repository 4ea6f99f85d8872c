r"""One trial: fit a ranker on every division and say what it is worth on the validation lists.

When a trial is looked at, and by what number it is compared with others.

Looks are at fixed shares of the steps a fit may take, so that models of few and many steps meet at
the same places, and the store is not written at every tree. At look k of division f the number is

.. math:: \frac{1}{f+1}\Big(\sum_{g<f} v_g + \max_{i \le k} m_i\Big),

with :math:`v_g` what the finished divisions gave and m the validation metric of this one. A fit
that stopped early stands with what it reached at the looks it did not come to.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np

from plackett.experiments.protocols import DataSource
from plackett.experiments.tuning.plan import SearchPlan
from plackett.metrics import evaluate
from plackett.models.crossfit import with_threads
from plackett.models.ranker import Progress, Ranker
from plackett.models.recipes.search_spaces import with_settings

Report: TypeAlias = Callable[[int, float, bool], None]
"""Called with the number of a look over all divisions, the value, and whether more is to come."""

SHARES = (0.125, 0.25, 0.5, 1.0)
"""Of the steps; earlier, small learning rates would lose unfairly."""


class Looks:
    """The looks at one fit.

    Parameters
    ----------
    division
        Its number, from 0.
    before
        What the divisions before it gave.
    report
        Called at each look; may raise.
    """

    def __init__(self, division: int, before: Sequence[float], report: Report) -> None:
        self._division, self._before, self._report = division, before, report
        self._best = float("-inf")
        self._next = 0

    def __call__(self, done: int, total: int, mean: float) -> None:
        """What :meth:`plackett.models.ranker.Ranker.fit` calls after each step."""
        self._best = max(self._best, mean)
        # The last look is at the finished fit, which knows better what it is worth.
        while self._next < len(SHARES) - 1 and done >= SHARES[self._next] * total:
            self._tell(self._best, more=True)

    def close(self, value: float, *, more: bool) -> None:
        """The fit is over and this is what it is worth: fill the looks that are left.

        ``more``: whether other divisions follow.
        """
        while self._next < len(SHARES):
            self._tell(value, more=more)

    def _tell(self, value: float, *, more: bool) -> None:
        place = self._division * len(SHARES) + self._next
        self._next += 1
        self._report(place, (sum(self._before) + value) / (self._division + 1), more)


class Pruned(Exception):  # noqa: N818 - not an error
    """A trial that is not worth going on with."""


def configured(plan: SearchPlan, settings: dict[str, Any], threads: int | None) -> Ranker:
    """The ranker of a trial."""
    ranker = with_threads(with_settings(plan.ranker, settings), threads)
    return ranker.set_params(seed=plan.seed) if "seed" in ranker.get_params() else ranker


def try_settings(
    ranker: Ranker,
    plan: SearchPlan,
    source: DataSource,
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
        Called at each look (:mod:`plackett.experiments.tuning.trial`); raises :class:`Pruned` to
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
