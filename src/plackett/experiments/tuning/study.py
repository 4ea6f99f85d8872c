"""A search that several processes work on: Optuna's study, and claims on its trials.

Optuna keeps what was suggested and what came of it; the run store in the same database says which
process is at work on which trial (:mod:`plackett.experiments.store.claims`). Trials are numbered
from 0 and each is brought to its end once. One whose process died is taken up under its number,
with the settings that were suggested for it and the divisions it had finished.

Optuna's storage in the file or server that a run store is in.

Suggestions that are values: the same seed, trial and history give the same, in any process.

Optuna's sampler draws from a generator that lives as long as its process, so a search that was
interrupted goes on with other numbers. Here each suggestion has a generator of its own, seeded by
the seed, the number of the trial and the name of the parameter.
"""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

import optuna
from optuna.samplers import BaseSampler, TPESampler
from optuna.trial import TrialState

from plackett.base.optional import require
from plackett.experiments.store import Heartbeat, Identity, RunStore, StoreError
from plackett.experiments.tuning.plan import SearchPlan
from plackett.experiments.tuning.trial import SHARES, Pruned
from plackett.models.recipes.search_spaces import Choice, Dimension, Real, format_value

if TYPE_CHECKING:
    from typing_extensions import Self


_PATIENCE = 60.0
"""Seconds to wait for another process that writes, as in the run store."""
_PAUSE = 0.05
_TABLES = Identity("", "tables of searches", {}, seed=0, part="tables", metric="", code="")


def need_optuna() -> None:
    """Raise an ImportError with the command to run if Optuna is missing."""
    require("optuna", "sqlalchemy")
    import optuna

    optuna.logging.set_verbosity(optuna.logging.WARNING)  # we say ourselves what is being done


def open_storage(store: RunStore) -> Any:
    """Optuna's storage in the database of a run store.

    Its tables are made at the first time, and Optuna does not expect two processes to make them at
    once: a claim lets one after the other.
    """
    end = time.monotonic() + _PATIENCE
    store.release_dead()
    while not store.claim(_TABLES) and time.monotonic() < end:
        time.sleep(_PAUSE)
    try:
        return _opened(store)
    finally:
        store.release([_TABLES])


def _opened(store: RunStore) -> Any:
    from optuna.exceptions import StorageInternalError
    from optuna.storages import RDBStorage
    from sqlalchemy.exc import SQLAlchemyError

    url, arguments = _database(store.url)
    try:
        return RDBStorage(url, engine_kwargs=arguments)
    except (SQLAlchemyError, StorageInternalError, RuntimeError) as error:
        reason = str(error.__cause__ or error).splitlines()[0]
        raise StoreError(store.place, f"cannot hold a search: {reason}") from error


def _database(text: str) -> tuple[str, dict[str, Any]]:
    scheme, sign, rest = text.partition("://")
    if sign and scheme in ("postgresql", "postgres"):
        return f"postgresql+psycopg://{rest}", {"pool_pre_ping": True}
    path = Path(rest[1:] if sign else text).absolute()
    # IMMEDIATE: a transaction that writes takes the right to write at its beginning, and waits for
    # it; one that comes to it later is refused if another process wrote in between.
    arguments = {"timeout": _PATIENCE, "isolation_level": "IMMEDIATE"}
    return f"sqlite:///{path}", {"connect_args": arguments}


STARTUP = 10
"""Trials at random before the sampler (tree-structured Parzen estimators) learns from them."""


class KeyedSampler(BaseSampler):  # type: ignore[misc] # Optuna is an extra
    """Bergstra et al. (2011) as in Optuna, with randomness keyed by trial and parameter."""

    def __init__(self, seed: int) -> None:
        self._seed = seed

    def infer_relative_search_space(self, study: Any, trial: Any) -> Any:
        return self._keyed(trial).infer_relative_search_space(study, trial)

    def sample_relative(self, study: Any, trial: Any, search_space: Any) -> Any:
        return self._keyed(trial).sample_relative(study, trial, search_space)

    def sample_independent(
        self, study: Any, trial: Any, param_name: str, param_distribution: Any
    ) -> Any:
        own = self._keyed(trial, param_name)
        return own.sample_independent(study, trial, param_name, param_distribution)

    def _keyed(self, trial: Any, name: str = "") -> Any:
        key = f"{self._seed}/{trial.number}/{name}".encode()
        seed = int.from_bytes(hashlib.sha256(key).digest()[:4], "big")
        return TPESampler(
            seed=seed,
            n_startup_trials=STARTUP,
            multivariate=True,
        )


_OWN = "recipe"
"""Where the study keeps what the recipe's own settings gave."""
_DIVISION = "division {}"
_REASON = "reason"
_STARTUP = 5  # trials that are finished before any is pruned


class Study:
    """One search in a store.

    Parameters
    ----------
    place
        File or URL, as for a run store.
    plan
        The search.
    identity
        What determines it, with its data.
    n_looks
        Looks at a trial over all divisions.
    """

    def __init__(
        self, place: str | os.PathLike[str], plan: SearchPlan, identity: Identity, n_looks: int
    ) -> None:
        self.plan = plan
        self.name = f"{plan.name}-{identity.digest[:16]}"
        self._identity = identity
        self.store = RunStore(place)  # first: it makes the folder, and says clearly if it cannot
        try:
            self._storage = open_storage(self.store)
            self._study = optuna.create_study(
                study_name=self.name,
                storage=self._storage,
                sampler=KeyedSampler(plan.seed),
                pruner=_pruner(plan, n_looks),
                direction="maximize",
                load_if_exists=True,
            )
        except BaseException:
            self.store.close()
            raise
        self._heartbeat = Heartbeat(self.store)
        self._mine: dict[int, set[int]] = {}
        """Trials that this process has claimed, each with the looks that are in the store."""

    def trials(self) -> list[Any]:
        """All trials as Optuna keeps them, in the order of their numbers."""
        found: list[Any] = self._study.get_trials(deepcopy=False)
        return found

    @property
    def own(self) -> float | None:
        """What the recipe's own settings gave; None before they were tried."""
        value = self._study.user_attrs.get(_OWN)
        return None if value is None else float(value)

    @own.setter
    def own(self, value: float) -> None:
        self._study.set_user_attr(_OWN, value)

    @property
    def optuna(self) -> Any:
        """Optuna's study."""
        return self._study

    def want(self, count: int) -> None:
        """Let there be so many trials; those that are new wait to be taken."""
        for _ in range(count - len(self.trials())):
            self._study.enqueue_trial({})

    def claim(self, number: int) -> bool:
        """Take a trial for this process; False if it, or another one, has it already.

        -1 is the recipe itself.
        """
        digest = self._numbered(number)
        if number in self._mine or not self.store.claim(digest):
            return False
        self._mine[number] = set()
        self._heartbeat.add(digest.digest)
        return True

    def release(self, number: int) -> None:
        """Let go of a trial."""
        digest = self._numbered(number)
        self._heartbeat.drop(digest.digest)
        self._mine.pop(number, None)
        self.store.release([digest])

    def take(self, count: int) -> Any:
        """A trial below ``count`` that is neither finished nor in anybody's hands; None: no such.

        The lowest number comes first, so that alone a process makes them in their order.
        """
        self.store.release_dead()
        for frozen in self.trials()[:count]:
            if frozen.state.is_finished():
                continue
            trial = self._waiting(count) if frozen.state == TrialState.WAITING else None
            if trial is None:
                trial = self._abandoned(frozen)
            if trial is not None:
                return trial
        return None

    def _waiting(self, count: int) -> Any:
        """The first trial that waits; another process may be quicker."""
        trial = self._study.ask()
        if not self.claim(trial.number):
            return None
        if trial.number < count and not self.trials()[trial.number].state.is_finished():
            return trial
        self.release(trial.number)
        return None

    def _abandoned(self, frozen: Any) -> Any:
        """A trial that was begun and whose process is gone."""
        if not self.claim(frozen.number):
            return None
        # Who finishes a trial tells Optuna before the claim is given back, so this look is final.
        now = self.trials()[frozen.number]
        if now.state == TrialState.RUNNING:
            self._mine[frozen.number] = set(now.intermediate_values)
            return optuna.trial.Trial(self._study, now._trial_id)
        self.release(frozen.number)
        return None

    def suggest(self, trial: Any) -> dict[str, Any]:
        """The settings of a trial."""
        return {name: _suggested(trial, name, each) for name, each in self.plan.space.items()}

    def known(self, trial: Any) -> list[float]:
        """What the divisions gave that were finished before the trial's process died."""
        values: list[float] = []
        while (value := trial.user_attrs.get(_DIVISION.format(len(values) + 1))) is not None:
            values.append(value)
        return values

    def keep(self, trial: Any, division: int, value: float) -> None:
        """Keep what a division gave."""
        trial.set_user_attr(_DIVISION.format(division + 1), value)

    def look(self, trial: Any, place: int, value: float, more: bool) -> None:
        """Keep a look at a trial, and end the trial if it is behind the others."""
        looked = self._mine[trial.number]
        if place not in looked:  # the same value: what is random is seeded
            looked.add(place)
            trial.report(value, place)
        if more and trial.should_prune():
            raise Pruned

    def finish(self, trial: Any, value: float | None, reason: str = "") -> None:
        """Write how a trial ended: with a value, pruned without one, or failed for a reason."""
        if reason:
            trial.set_user_attr(_REASON, reason)
            self._study.tell(trial, state=TrialState.FAIL)
        elif value is None:
            self._study.tell(trial, state=TrialState.PRUNED)
        else:
            self._study.tell(trial, value)
        self.release(trial.number)

    def settings(self, frozen: Any) -> dict[str, Any]:
        """The settings of a trial as Optuna keeps it."""
        space = self.plan.space
        return {name: _decoded(each, space[name]) for name, each in frozen.params.items()}

    def _numbered(self, number: int) -> Identity:
        return replace(self._identity, part=f"{self._identity.part}, trial {number}")

    def __enter__(self) -> Self:
        self._heartbeat.__enter__()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._heartbeat.__exit__(kind, error, trace)
        self._storage.remove_session()
        self._storage.engine.dispose()
        self.store.close()


def reason_of(frozen: Any) -> str:
    """Why a trial failed; empty if it did not."""
    return str(frozen.user_attrs.get(_REASON, ""))


def _suggested(trial: Any, name: str, given: Dimension) -> Any:
    if isinstance(given, Choice):
        texts = [format_value(option) for option in given.options]
        return _decoded(trial.suggest_categorical(name, texts), given)
    suggest = trial.suggest_float if isinstance(given, Real) else trial.suggest_int
    return suggest(name, given.low, given.high, log=given.log)


def _decoded(value: Any, given: Dimension) -> Any:
    if not isinstance(given, Choice):
        return value
    options: Mapping[str, Any] = {format_value(option): option for option in given.options}
    return options[value]


def _pruner(plan: SearchPlan, n_looks: int) -> Any:
    if plan.pruner == "none":
        return optuna.pruners.NopPruner()
    if plan.pruner == "median":
        return optuna.pruners.MedianPruner(n_startup_trials=_STARTUP)
    return optuna.pruners.HyperbandPruner(
        min_resource=1, max_resource=max(n_looks, len(SHARES)), reduction_factor=2
    )
