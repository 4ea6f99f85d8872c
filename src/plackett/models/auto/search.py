"""The search: cross-fit one candidate after the other until the time is used up.

Every candidate is cross-fitted, so that each list gets a score from members that have never seen
it. Finished candidates and the state of the current one are in a folder, so a killed search can be
resumed. The time of a candidate is predicted from those before it, and candidates that would not
finish are left out.

Folder of a search::

    fit.json, lock         what is searched, and the process that does it
    folds.json             the number of parts for cross-fitting
    spent.json             seconds used so far
    fits/KEY/              checkpoint of a cross-fit that is not finished
    candidates/KEY/        model/ (a saved CrossFit), scores.npy, result.json

A key is the name of a candidate with a digest of its settings.
"""

import hashlib
import json
import shutil
import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from plackett.base.errors import ConvergenceWarning, DataError, PlackettError
from plackett.base.files import atomic_directory, write_json
from plackett.base.ragged import Scores
from plackett.data import Dataset
from plackett.distributed import Cluster, ClusterError
from plackett.metrics import Metric
from plackett.models.auto.portfolio import Candidate
from plackett.models.crossfit import CrossFit
from plackett.models.fit_context import Callback, FitStep, Progress, call_callbacks, measure
from plackett.models.trees import TreeRanker
from plackett.models.trees.params import why_not_resumable

Clock = Callable[[], float]


class OutOfTime(Exception):  # noqa: N818 - not an error
    """The budget is used up, or the current candidate would exceed it.

    ``needed`` are the seconds that the candidate would have taken; 0 if unknown.
    """

    def __init__(self, message: str, needed: float = 0.0) -> None:
        super().__init__(message)
        self.needed = needed


@dataclass
class TimeBudget:
    """Seconds to spend, minus those that earlier processes spent on the same folder."""

    seconds: float
    spent_before: float = 0.0
    clock: Clock = time.monotonic
    _start: float = field(default=0.0, init=False)

    def __post_init__(self) -> None:
        self._start = self.clock()

    @property
    def spent(self) -> float:
        """Seconds spent so far."""
        return self.spent_before + self.clock() - self._start

    @property
    def left(self) -> float:
        """Seconds left; negative if the budget is exceeded."""
        return self.seconds - self.spent


@dataclass(frozen=True, eq=False)
class Result:
    """A candidate that was tried."""

    candidate: Candidate
    seconds: float
    scores: Scores | None = None
    """Out-of-fold scores; None if it was not finished."""
    value: float = float("nan")
    """Mean of the metric over the lists, from the out-of-fold scores."""
    note: str = ""
    """Why it was not finished."""
    needed: float = 0.0
    """Seconds that it would have taken if it was not finished; 0 if unknown."""


@dataclass(eq=False)
class Search:
    """Cross-fits candidates within a budget of seconds; results are kept in ``folder``.

    ``data`` are all lists, in canonical order. Members stop by ``metrics``; candidates and ensembles are compared by
    the first. ``callbacks`` are called after each candidate; one may end the search.
    """

    save_seconds: ClassVar[float] = 5.0
    """Time between two records of the time spent."""

    folder: Path
    data: Dataset
    metrics: tuple[Metric, ...]
    budget: TimeBudget
    make_crossfit: Callable[[Candidate], CrossFit]
    progress: Progress
    callbacks: Sequence[Callback] = ()
    cluster: Cluster | None = None
    is_stopped: bool = False
    results: dict[str, Result] = field(default_factory=dict)
    _next_save: float = 0.0

    @property
    def metric(self) -> Metric:
        """The metric by which candidates are compared."""
        return self.metrics[0]

    @property
    def finished(self) -> list[Result]:
        """The candidates with scores, in the order in which they were tried."""
        return [result for result in self.results.values() if result.scores is not None]

    def run(self, candidates: Sequence[Candidate]) -> None:
        """Try the candidates in this order; the first is always finished, however long it takes."""
        for candidate in candidates:
            if self.is_stopped:
                return
            if candidate.name in self.results:
                continue
            is_first = not self.finished
            result = self._load(candidate)
            if result is None and not is_first:
                expected = self.predict_seconds(candidate)
                if expected > self.budget.left:
                    note = f"left out: needs about {expected:.0f} s"
                    result = Result(candidate, 0.0, note=note)
            if result is None:
                result = self._try(candidate, must_finish=is_first)
            self.results[candidate.name] = result
            measured = {} if result.scores is None else {str(self.metric): result.value}
            step = FitStep(len(self.results), max(len(candidates), len(self.results)), {"validation": measured})
            self.is_stopped = call_callbacks(self.callbacks, step) and bool(self.finished)

    def predict_seconds(self, candidate: Candidate) -> float:
        """Predict the seconds that a candidate will take, from earlier candidates of its family."""
        folds = self.make_crossfit(candidate).folds
        expected = candidate.expected_seconds(self.data, folds)
        family = [r for r in self.results.values() if r.candidate.family == candidate.family]
        for measured in (
            [(r.seconds, r.candidate) for r in family if r.scores is not None],
            [(r.needed, r.candidate) for r in family if r.needed > 0],
        ):
            # The first fit of a family also loads and compiles code, so use the smaller of two ratios.
            ratios = sorted(s / c.expected_seconds(self.data, folds) for s, c in measured)
            if ratios:
                return expected * ratios[(len(ratios) - 1) // 2]
        # If the family has not been measured here, leave out only what is certainly too slow.
        return expected / 3

    def _try(self, candidate: Candidate, *, must_finish: bool) -> Result:
        start = self.budget.clock()
        checkpoint = self.folder / "fits" / self._key(candidate)
        crossfit = self.make_crossfit(candidate)
        # Fits that cannot be continued to the same model start again.
        can_resume = not isinstance(crossfit.ranker, TreeRanker) or why_not_resumable(crossfit.ranker) is None
        progress = self._watch_budget(candidate, crossfit._n_members, must_finish)
        note, needed = "", 0.0
        try:
            with warnings.catch_warnings():
                # Members are compared by their scores, not by how well a solver converged.
                warnings.simplefilter("ignore", ConvergenceWarning)
                crossfit.fit(
                    self.data,
                    metric=self.metrics,
                    checkpoint=checkpoint if can_resume else None,
                    progress=progress,
                    cluster=self.cluster,
                )
        except OutOfTime as error:
            note, needed = str(error), error.needed
        except ClusterError:
            raise
        except PlackettError as error:
            # One kind of model may reject data that others accept.
            note = f"failed: {error}"
        seconds = self.budget.clock() - start
        self._save_spent(force=True)
        if note:
            return Result(candidate, seconds, note=note, needed=needed)
        scores = crossfit.out_of_fold(self.data)
        result = Result(candidate, seconds, scores, self._measure(scores))
        self._save(result, crossfit)
        shutil.rmtree(checkpoint, ignore_errors=True)
        return result

    def _measure(self, scores: Scores) -> float:
        return measure(scores, self.data, (self.metric,))[0]

    def _watch_budget(self, candidate: Candidate, fits: int, must_finish: bool) -> Progress:
        """Report progress, and end the fit when the time is up or cannot suffice."""
        start = self.budget.clock()
        ends: list[float] = []  # of the fits

        def report(text: str, done: int, total: int) -> None:
            self._save_spent()
            left = self.budget.left
            best = max((r.value for r in self.finished), default=float("nan"))
            so_far = "" if np.isnan(best) else f", best {self.metric} {best:.4f}"
            member = text.partition(":")[0]
            status = f"{candidate.name}, {member}{so_far}, {max(left, 0):.0f} s left"
            self.progress(status, done, total)
            if must_finish:
                return
            elapsed = self.budget.clock() - start
            while len(ends) < done * fits // max(total, 1):
                ends.append(elapsed)
            needed = 0.0
            if len(ends) >= 2:
                # The first fit also loads and compiles code, so predict from the later ones.
                per_fit = (ends[-1] - ends[0]) / (len(ends) - 1)
                needed = ends[-1] + per_fit * (fits - len(ends))
            elif ends:
                needed = ends[0] * fits
            if left <= 0:
                raise OutOfTime("not finished: the time was up", needed)
            if len(ends) >= 2 and needed - elapsed > left:
                raise OutOfTime(f"not finished: needs about {needed:.0f} s", needed)

        return report

    def model(self, candidate: Candidate) -> CrossFit:
        """The fitted cross-fit of a finished candidate."""
        from plackett.models.load import load

        model = load(self._path(candidate) / "model")
        assert isinstance(model, CrossFit)
        return model

    def is_saved(self, candidate: Candidate) -> bool:
        """Whether this or an earlier process has finished the candidate."""
        return self._path(candidate).is_dir()

    def _path(self, candidate: Candidate) -> Path:
        return self.folder / "candidates" / self._key(candidate)

    def _key(self, candidate: Candidate) -> str:
        """The name with a digest of the settings, which may differ in another version."""
        folds, repeats = self.make_crossfit(candidate).folds, candidate.repeats_on(self.data)
        settings = sorted(candidate.settings.items()), candidate.recipe, candidate.transforms, folds, repeats
        return f"{candidate.name}-{hashlib.sha256(repr(settings).encode()).hexdigest()[:8]}"

    def _save(self, result: Result, crossfit: CrossFit) -> None:
        assert result.scores is not None
        with atomic_directory(self._path(result.candidate)) as folder:
            crossfit.save(folder / "model")
            np.save(folder / "scores.npy", result.scores, allow_pickle=False)
            write_json(folder / "result.json", {"seconds": result.seconds})

    def _load(self, candidate: Candidate) -> Result | None:
        """A result of an earlier process; None if there is none."""
        path = self._path(candidate)
        if not self.is_saved(candidate):
            return None
        try:
            seconds = float(json.loads((path / "result.json").read_text())["seconds"])
            scores = np.load(path / "scores.npy", allow_pickle=False)
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise DataError("is damaged; delete this folder", path=str(path)) from error
        if scores.shape != (self.data.n_docs,):
            raise DataError("holds scores of other data; delete this folder", path=str(path))
        return Result(candidate, seconds, scores, self._measure(scores))

    def _save_spent(self, *, force: bool = False) -> None:
        spent = self.budget.spent
        if force or spent >= self._next_save:
            write_json(self.folder / "spent.json", {"seconds": spent})
            self._next_save = spent + self.save_seconds


def read_spent(folder: Path) -> float:
    """Seconds that earlier processes have spent in a folder."""
    try:
        spent: Any = json.loads((folder / "spent.json").read_text())["seconds"]
    except (OSError, ValueError, KeyError, TypeError):
        return 0.0
    return max(float(spent), 0.0)


def keep_folds(folder: Path, folds: int) -> int:
    """The number of parts of the search in a folder; of a new search, ``folds``."""
    path = folder / "folds.json"
    if not path.exists():
        write_json(path, {"folds": folds})
        return folds
    try:
        kept = json.loads(path.read_text())["folds"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise DataError("is damaged; delete it", path=str(path)) from error
    if type(kept) is not int or kept < 3:
        raise DataError("must hold a number of parts; delete it", path=str(path))
    return kept
