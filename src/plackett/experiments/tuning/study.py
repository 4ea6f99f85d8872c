"""A search in a store: Optuna's study, and claims on its trials.

Optuna keeps what was suggested and the results; the run store in the same database says which
process is running which trial (:mod:`plackett.experiments.database`). Trials are numbered from
0 and each is finished once. A trial whose process died is taken over under its number, with the
settings that were suggested for it and the values of the splits it had finished.

Suggestions depend only on the seed, the number of the trial and the finished trials. Optuna's
sampler draws from one generator per process, so an interrupted search would continue with other
numbers; here every suggestion has its own generator.
"""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import optuna
from optuna.exceptions import StorageInternalError
from optuna.samplers import BaseSampler, TPESampler
from optuna.storages import RDBStorage
from optuna.trial import TrialState
from sqlalchemy.exc import SQLAlchemyError

from plackett.base.errors import StoreError
from plackett.experiments.protocols import DataSource
from plackett.experiments.store import Heartbeat, Identity, RunStore
from plackett.experiments.tuning.plan import REPORT_SHARES, SearchPlan, TrialPruned
from plackett.models.recipes.search_spaces import Choice, Dimension, Real, format_value

optuna.logging.set_verbosity(optuna.logging.WARNING)  # progress is reported by the search itself

_PATIENCE = 60.0  # seconds to wait for another process that writes, as in the run store
_PAUSE = 0.05
_TABLES = Identity("", "tables of searches", {}, seed=0, part="tables", metric="", code="")


def open_storage(store: RunStore) -> Any:
    """Optuna's storage in the database of a run store.

    Its tables are created at the first use. Optuna cannot handle two processes that create them at the
    same time, so a claim admits one process at a time.
    """
    end = time.monotonic() + _PATIENCE
    store.release_dead()
    while not store.claim(_TABLES) and time.monotonic() < end:
        time.sleep(_PAUSE)
    try:
        url, arguments = _parse_url(store.url)
        return RDBStorage(url, engine_kwargs=arguments)
    except (SQLAlchemyError, StorageInternalError, RuntimeError) as error:
        reason = str(error.__cause__ or error).splitlines()[0]
        raise StoreError(store.location, f"cannot hold a search: {reason}") from error
    finally:
        store.release([_TABLES])


def _parse_url(text: str) -> tuple[str, dict[str, Any]]:
    scheme, sign, rest = text.partition("://")
    if sign and scheme in ("postgresql", "postgres"):
        return f"postgresql+psycopg://{rest}", {"pool_pre_ping": True}
    path = Path(rest[1:] if sign else text).absolute()
    # IMMEDIATE: a transaction takes the write lock when it begins, and waits for it. Otherwise it
    # would fail without waiting if another process wrote after it began.
    arguments = {"timeout": _PATIENCE, "isolation_level": "IMMEDIATE"}
    return f"sqlite:///{path}", {"connect_args": arguments}


STARTUP = 10  # random trials before the sampler (tree-structured Parzen estimators) learns from them


class KeyedSampler(BaseSampler):  # type: ignore[misc] # Optuna is an extra
    """Bergstra et al. (2011) as in Optuna, with randomness keyed by trial and parameter."""

    def __init__(self, seed: int) -> None:
        self._seed = seed

    def infer_relative_search_space(self, study: Any, trial: Any) -> Any:
        return self._make_sampler(trial).infer_relative_search_space(study, trial)

    def sample_relative(self, study: Any, trial: Any, search_space: Any) -> Any:
        return self._make_sampler(trial).sample_relative(study, trial, search_space)

    def sample_independent(self, study: Any, trial: Any, param_name: str, param_distribution: Any) -> Any:
        sampler = self._make_sampler(trial, param_name)
        return sampler.sample_independent(study, trial, param_name, param_distribution)

    def _make_sampler(self, trial: Any, name: str = "") -> Any:
        key = f"{self._seed}/{trial.number}/{name}".encode()
        seed = int.from_bytes(hashlib.sha256(key).digest()[:4], "big")
        return TPESampler(seed=seed, n_startup_trials=STARTUP, multivariate=True)


RECIPE = -1  # the number of the recipe's own settings among the trials
_RECIPE_VALUE = "recipe"  # the attribute of the study that holds the value of the recipe's own settings
_SPLIT_VALUE = "division {}"
_REASON = "reason"
_UNPRUNED = 5  # trials that are finished before any is pruned


class TuningStudy:
    """One search in a store, of ``count`` trials besides the recipe's own settings.

    ``location`` is a file or URL, as for a run store.
    """

    def __init__(self, location: str | os.PathLike[str], plan: SearchPlan, source: DataSource, count: int) -> None:
        self.plan = plan
        self.count = count
        self._identity = plan.identity(source)
        self.name = f"{plan.name}-{self._identity.digest[:16]}"
        self.store = RunStore(location)  # first: makes the folder, with a clear error if it cannot
        try:
            self._storage = open_storage(self.store)
            self.optuna = optuna.create_study(
                study_name=self.name,
                storage=self._storage,
                sampler=KeyedSampler(plan.seed),
                pruner=_make_pruner(plan, len(REPORT_SHARES) * plan.splits.count(source)),
                direction="maximize",
                load_if_exists=True,
            )
        except BaseException:
            self.store.close()
            raise
        self._heartbeat = Heartbeat(self.store)
        self._claimed: dict[int, set[int]] = {}
        """Trials that this process has claimed, each with its reports that are in the store."""

    def trials(self) -> list[Any]:
        """All trials as Optuna keeps them, in the order of their numbers."""
        trials: list[Any] = self.optuna.get_trials(deepcopy=False)
        return trials

    def count_finished(self) -> int:
        """How many of the ``count`` trials are finished."""
        return sum(trial.state.is_finished() for trial in self.trials()[: self.count])

    def is_finished(self) -> bool:
        """Whether the trials and the recipe's own settings are all evaluated."""
        return self.count_finished() == self.count and self.recipe_value is not None

    @property
    def recipe_value(self) -> float | None:
        """The value of the recipe's own settings; None before they were evaluated."""
        value = self.optuna.user_attrs.get(_RECIPE_VALUE)
        return None if value is None else float(value)

    @recipe_value.setter
    def recipe_value(self, value: float) -> None:
        self.optuna.set_user_attr(_RECIPE_VALUE, value)

    def enqueue(self) -> None:
        """Add waiting trials until there are ``count``."""
        for _ in range(self.count - len(self.trials())):
            self.optuna.enqueue_trial({})

    def claim_recipe(self) -> bool:
        """Claim the recipe's own settings, the reference for tuning; False if they are evaluated or claimed."""
        self.store.release_dead()
        if self.recipe_value is None and self._claim(RECIPE):
            if self.recipe_value is None:
                return True
            self.release(RECIPE)  # another process has just finished it
        return False

    def _claim(self, number: int) -> bool:
        """Claim a trial for this process; False if this or another process has it already."""
        identity = self._identify(number)
        if number in self._claimed or not self.store.claim(identity):
            return False
        self._claimed[number] = set()
        self._heartbeat.add(identity.digest)
        return True

    def release(self, number: int) -> None:
        """Give up the claim on a trial."""
        identity = self._identify(number)
        self._heartbeat.drop(identity.digest)
        self._claimed.pop(number, None)
        self.store.release([identity])

    def take(self) -> Any:
        """Claim one of the ``count`` trials that is neither finished nor claimed, or return None.

        The lowest number comes first, so a single process runs them in order.
        """
        self.store.release_dead()
        for frozen in self.trials()[: self.count]:
            if frozen.state.is_finished():
                continue
            trial = self._take_waiting() if frozen.state == TrialState.WAITING else None
            if trial is None:
                trial = self._take_abandoned(frozen)
            if trial is not None:
                return trial
        return None

    def _take_waiting(self) -> Any:
        """The first waiting trial; None if another process was quicker."""
        trial = self.optuna.ask()
        if not self._claim(trial.number):
            return None
        if trial.number < self.count and not self.trials()[trial.number].state.is_finished():
            return trial
        self.release(trial.number)
        return None

    def _take_abandoned(self, frozen: Any) -> Any:
        """A trial that was started by a process that has died."""
        if not self._claim(frozen.number):
            return None
        # A finished trial is written before its claim is released, so this state is final.
        now = self.trials()[frozen.number]
        if now.state == TrialState.RUNNING:
            self._claimed[frozen.number] = set(now.intermediate_values)
            return optuna.trial.Trial(self.optuna, now._trial_id)
        self.release(frozen.number)
        return None

    def suggest(self, trial: Any) -> dict[str, Any]:
        """The settings of a trial."""
        return {name: _suggest(trial, name, dimension) for name, dimension in self.plan.space.items()}

    def known_values(self, trial: Any) -> list[float]:
        """Values of the splits that were finished before the trial's process died."""
        values: list[float] = []
        while (value := trial.user_attrs.get(_SPLIT_VALUE.format(len(values) + 1))) is not None:
            values.append(value)
        return values

    def save_value(self, trial: Any, split: int, value: float) -> None:
        """Save the value of a split."""
        trial.set_user_attr(_SPLIT_VALUE.format(split + 1), value)

    def report(self, trial: Any, number: int, value: float, more: bool) -> None:
        """Save a report of a trial; raises TrialPruned if the trial is behind the others."""
        reported = self._claimed[trial.number]
        if number not in reported:  # a trial that is run again reports the same values
            reported.add(number)
            trial.report(value, number)
        if more and trial.should_prune():
            raise TrialPruned

    def finish(self, trial: Any, value: float | None, reason: str = "") -> None:
        """Save the end of a trial: a value, None if it was pruned, or the reason of its failure."""
        if reason:
            trial.set_user_attr(_REASON, reason)
            self.optuna.tell(trial, state=TrialState.FAIL)
        elif value is None:
            self.optuna.tell(trial, state=TrialState.PRUNED)
        else:
            self.optuna.tell(trial, value)
        self.release(trial.number)

    def settings(self, frozen: Any) -> dict[str, Any]:
        """The settings of a trial as Optuna keeps it."""
        return {name: _decode(value, self.plan.space[name]) for name, value in frozen.params.items()}

    def _identify(self, number: int) -> Identity:
        return replace(self._identity, part=f"{self._identity.part}, trial {number}")

    def __enter__(self) -> TuningStudy:
        self._heartbeat.__enter__()
        return self

    def __exit__(self, *error: object) -> None:
        self._heartbeat.__exit__(*error)
        self._storage.remove_session()
        self._storage.engine.dispose()
        self.store.close()


def failure_reason(frozen: Any) -> str:
    """Why a trial failed; empty if it did not."""
    return str(frozen.user_attrs.get(_REASON, ""))


def _suggest(trial: Any, name: str, dimension: Dimension) -> Any:
    if isinstance(dimension, Choice):
        texts = [format_value(option) for option in dimension.options]
        return _decode(trial.suggest_categorical(name, texts), dimension)
    suggest = trial.suggest_float if isinstance(dimension, Real) else trial.suggest_int
    return suggest(name, dimension.low, dimension.high, log=dimension.log)


def _decode(value: Any, dimension: Dimension) -> Any:
    if not isinstance(dimension, Choice):
        return value
    options: Mapping[str, Any] = {format_value(option): option for option in dimension.options}
    return options[value]


def _make_pruner(plan: SearchPlan, n_reports: int) -> Any:
    if plan.pruner == "none":
        return optuna.pruners.NopPruner()
    if plan.pruner == "median":
        return optuna.pruners.MedianPruner(n_startup_trials=_UNPRUNED)
    return optuna.pruners.HyperbandPruner(min_resource=1, max_resource=n_reports, reduction_factor=2)
