"""The work on a search: take a trial, try it, write it down, until all are finished."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from plackett.base.errors import UsageError
from plackett.experiments.protocols import Source
from plackett.experiments.tuning.study import Study, reason_of
from plackett.experiments.tuning.trying import Pruned, configured, try_settings
from plackett.models.ranker import Progress

_POLL = 0.5
"""Seconds between looks at what other processes have finished."""
_HOPELESS = 5
"""Trials that fail before any succeeds, and the search is given up."""
OWN = -1
"""The number under which the recipe's own settings are tried."""


@dataclass(eq=False)
class Work:
    """The part of one process in a search."""

    study: Study
    source: Source
    trials: int
    threads: int | None
    progress: Progress
    ran: int = 0
    """Trials that were brought to their end here."""

    def finish(self) -> None:
        """Work until all trials are finished, here or elsewhere."""
        self.study.want(self.trials)
        while True:
            self._try_own()
            trial = self.study.take(self.trials)
            if trial is not None:
                self._try(trial)
            elif left(self.study, self.trials) == 0 and self.study.own is not None:
                self._tell("")
                return
            else:
                self._tell("waiting for another process")
                time.sleep(_POLL)

    def _try_own(self) -> None:
        """The recipe as it is: what tuning has to beat."""
        self.study.store.release_dead()
        if self.study.own is not None or not self.study.claim(OWN):
            return
        try:
            if self.study.own is None:
                plan = self.study.plan
                ranker = configured(plan, {}, self.threads)
                tell = self._told("the recipe's own settings")
                self.study.own = try_settings(ranker, plan, self.source, progress=tell)
        finally:
            self.study.release(OWN)

    def _try(self, trial: Any) -> None:
        try:
            value, reason = self._value(trial)
        except BaseException:
            self.study.release(trial.number)  # to be taken up again
            raise
        self.study.finish(trial, value, reason)
        self.ran += 1
        if reason:
            check_hope(self.study)

    def _value(self, trial: Any) -> tuple[float | None, str]:
        """What a trial is worth, None where it was pruned; or why its settings cannot be fitted."""
        study = self.study
        try:
            ranker = configured(study.plan, study.suggest(trial), self.threads)
            value = try_settings(
                ranker,
                study.plan,
                self.source,
                known=study.known(trial),
                keep=partial(study.keep, trial),
                report=partial(study.look, trial),
                progress=self._told(f"trial {trial.number + 1}"),
            )
        except Pruned:
            return None, ""
        except UsageError as error:  # weights without bounds, settings that exclude each other
            return None, str(error)
        return value, ""

    def _told(self, what: str) -> Progress:
        """Tell of the trial at work, not of each of its steps: those come by the hundred."""
        self._tell(what)
        return lambda *_: None

    def _tell(self, text: str) -> None:
        tell_best(self.study, self.trials, self.progress, text)


def left(study: Study, trials: int) -> int:
    """How many of so many trials are not finished."""
    return sum(not each.state.is_finished() for each in study.trials()[:trials])


def check_hope(study: Study) -> None:
    """Give a search up in which nothing can be fitted."""
    reasons = [reason_of(each) for each in study.trials() if each.state.is_finished()]
    if len(reasons) >= _HOPELESS and all(reasons):
        raise UsageError(
            f"none of the first {len(reasons)} trials could be fitted; the last said: {reasons[-1]}"
        )


def tell_best(
    study: Study, trials: int, progress: Callable[[str, int, int], None], text: str
) -> None:
    """Say how far a search is, with the best value so far."""
    values = [each.value for each in study.trials() if each.value is not None and _counts(each)]
    best = max(values, default=None)
    found = "" if best is None else f"best {study.plan.judge} {best:.4f}"
    done = trials - left(study, trials)
    progress(" · ".join(part for part in (text, found) if part), done, trials)


def _counts(frozen: Any) -> bool:
    return str(frozen.state.name) == "COMPLETE"
