r"""One trial of a search: fit a ranker on every split and evaluate it on the validation lists.

While a trial runs, its validation metric is reported at fixed shares of the steps that a fit may
take, so that models with few and with many steps can be compared at the same points and the store
is not written at every tree. The value of report k in split f is

.. math:: \frac{1}{f+1}\Big(\sum_{g<f} v_g + \max_{i \le k} m_i\Big),

with :math:`v_g` the values of the finished splits and m the validation metric in this one. A fit
that stops early reports the value it reached for the rest.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np

from plackett.experiments.protocols import DataSource
from plackett.experiments.tuning.plan import SearchPlan
from plackett.metrics import evaluate
from plackett.models.crossfit import with_threads
from plackett.models.ranker import Progress, Ranker, no_progress
from plackett.models.recipes.search_spaces import with_settings

Report: TypeAlias = Callable[[int, float, bool], None]
"""Called with the number of a report over all splits, the value, and whether more will follow."""

REPORT_SHARES = (0.125, 0.25, 0.5, 1.0)
"""Shares of the steps at which a trial reports; earlier ones would punish small learning rates."""


class TrialPruned(Exception):  # noqa: N818 - not an error
    """Raised to end a trial that is behind the others."""


class ReportSchedule:
    """The reports of one fit.

    Parameters
    ----------
    split
        Number of the split, from 0.
    before
        Values of the splits before it.
    report
        Called for each report; may raise :class:`TrialPruned`.
    """

    def __init__(self, split: int, before: Sequence[float], report: Report) -> None:
        self._split, self._before, self._report = split, before, report
        self._best = float("-inf")
        self._next = 0

    def __call__(self, done: int, total: int, mean: float) -> None:
        """Take the metric after a step, as the ``watch`` of :meth:`Ranker.fit`."""
        self._best = max(self._best, mean)
        # The last report is left to the finished fit, whose value is exact.
        while self._next < len(REPORT_SHARES) - 1 and done >= REPORT_SHARES[self._next] * total:
            self._send(self._best, more=True)

    def close(self, value: float, *, more: bool) -> None:
        """Send the remaining reports with the value of the finished fit.

        ``more``: whether other splits follow.
        """
        while self._next < len(REPORT_SHARES):
            self._send(value, more=more)

    def _send(self, value: float, *, more: bool) -> None:
        number = self._split * len(REPORT_SHARES) + self._next
        self._next += 1
        self._report(number, (sum(self._before) + value) / (self._split + 1), more)


def build_ranker(plan: SearchPlan, settings: dict[str, Any], threads: int | None) -> Ranker:
    """The ranker of a trial."""
    ranker = with_threads(with_settings(plan.ranker, settings), threads)
    return ranker.set_params(seed=plan.seed) if "seed" in ranker.get_params() else ranker


def evaluate_ranker(
    ranker: Ranker,
    plan: SearchPlan,
    source: DataSource,
    *,
    known: Sequence[float] = (),
    save: Callable[[int, float], None] = lambda *_: None,
    report: Report = lambda *_: None,
    progress: Progress = no_progress,
) -> float:
    """The mean over splits of the metric on validation lists.

    Parameters
    ----------
    ranker
        Not fitted.
    plan, source
        The search and its data.
    known
        Values of the first splits, if they were evaluated before.
    save
        Called with the number of a split and its value.
    report
        Called for each report of a fit; raises :class:`TrialPruned` to end the trial.
    progress
        As for ``fit``.
    """
    values = list(known)
    count = plan.splits.count(source)
    for i in range(len(known), count):
        train, validation = plan.splits.load(source, i)
        reports = ReportSchedule(i, tuple(values), report)
        fitted = ranker.clone().fit(
            train, validation, plan.metric, progress=progress, watch=reports
        )
        scores = fitted.predict(validation)
        values.append(evaluate(scores, validation, [plan.judge])[plan.judge])
        save(i, values[-1])
        reports.close(values[-1], more=i < count - 1)
    return float(np.mean(values))
