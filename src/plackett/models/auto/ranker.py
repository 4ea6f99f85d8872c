"""AutoRanker: the best ensemble that can be found within a time limit."""

from __future__ import annotations

import json
import os
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from plackett.base.errors import DataError, DataWarning, UsageError
from plackett.base.ragged import Offsets, Scores
from plackett.data import Dataset, concat, group_codes
from plackett.data.canonical import has_nan
from plackett.data.transforms import FittedTransform
from plackett.data.transforms.base import apply_in_blocks
from plackett.distributed.local_pool import LocalPool
from plackett.models.auto.distillation import Distillation, distill_trees, is_sum_of_trees
from plackett.models.auto.leaderboard import ENSEMBLE, LeaderboardRow, format_table, make_row, read_rows
from plackett.models.auto.portfolio import BASELINE, Candidate, choose_folds, find_candidates, order_candidates, vary
from plackett.models.auto.search import Search, TimeBudget, keep_folds, read_spent
from plackett.models.auto.selection import EnsembleSelection, select_ensemble
from plackett.models.crossfit import KEPT_MEMBERS, CrossFit
from plackett.models.ensembles import Ensemble, EnsembleRanker
from plackett.models.ensembles.ensemble import merge
from plackett.models.fit_context import Curves, FitContext, check_learnable
from plackett.models.insight import Method
from plackett.models.parameters import accept_aliases
from plackett.models.ranker import Ranker
from plackett.models.recipes import recipe
from plackett.models.trees import TreeRanker

if TYPE_CHECKING:
    from typing_extensions import Self


_FILE = "auto.json"
_MIN_GROUPS = 6  # minimum number of lists for cross-fitting
_FINISHING_SHARE = 0.05  # of the budget, for ensemble selection
_DISTILLING_SHARE = 0.25
_TREE_FAMILIES = ("trees", "catboost", "xgboost")
_VARIED = 3  # number of best candidates that are varied
_FAST = "e-lambdaloss-smooth"
_FAST_SETTINGS = {"trees": 200, "learning_rate": 0.1, "patience": 30}
# Numbers of values (documents times features): up to the first, one thread per member is best; from the
# second on, starting other processes pays off.
_SMALL_VALUES, _PROCESS_VALUES = 20_000_000, 200_000


@accept_aliases
@dataclass(eq=False)
class AutoRanker(Ranker):
    """The best ensemble for a time budget: many candidates are cross-fitted, and the best are summed with weights.

    The cheapest candidate is tried first, then LightGBM's defaults, then the others in the order of expected gain per
    second. Each is cross-fitted, so that every list gets a score from models that have not seen it; weights are
    selected on these scores only. With validation data, members rotate over the training and the validation lists
    together.

    With a checkpoint, a killed fit can be resumed, and a fit with more minutes continues one with
    fewer. If the time suffices for all candidates, the same seed gives the same model to the bit.
    Ctrl-C ends the search; the model is then the best so far.

    Some candidates also see features of the whole list (:class:`~plackett.data.transforms.ListContext`).

    Parameters
    ----------
    minutes
        Time to spend; the fit exceeds it by at most about 10 %, except that the first candidate is always finished.
    metric
        What to select by, unless ``fit`` is given another metric.
    members
        ``"auto"`` for all candidates, or those to try: families (``"trees"``, ``"nets"``, ``"linear"``),
        candidates of the portfolio, or recipes.
    presets
        ``"fast"``: one small model of trees; ``"good"``: trees that can be exported; ``"best"``: everything.
    folds
        Number of parts for cross-fitting; None: 8 up to 1000 lists, and from 8 to 4 for more, depending on the budget.
    variations
        With ``presets="best"``: number of variations of the best candidates to try after all
        candidates, if there is time.
    distill
        ``"trees"``: members that are not trees are replaced with one tree model that is trained on
        their scores. The whole model is then a sum of trees, and can be exported as one.
    seed
        Random seed of parts, members and ensemble selection.
    threads
        Number of threads; None: all. On small data each member is fitted by one thread, and as many
        members at the same time as there are threads, each in its own process.
    transforms
        Applied to the features first. Members have transforms of their own and seldom need any.

    Examples
    --------
    >>> import plackett as pk
    >>> ranker = pk.AutoRanker(minutes=10, metric="ndcg@10").fit(pk.read("train.parquet"))  # doctest: +SKIP
    >>> print(ranker.leaderboard())  # doctest: +SKIP
    """

    takes_missing: ClassVar[bool] = True
    takes_categories: ClassVar[bool] = True
    supports_cluster: ClassVar[bool] = True
    supports_init: ClassVar[bool] = False
    libraries: ClassVar[tuple[str, ...]] = ("numpy", "lightgbm")
    not_identity: ClassVar[tuple[str, ...]] = ("minutes", "metric", "members", "presets", "variations", "distill")
    clock: ClassVar[Callable[[], float]] = staticmethod(time.monotonic)

    minutes: float = 10.0
    metric: str = "ndcg@10"
    members: str | tuple[str, ...] = "auto"
    presets: Literal["fast", "good", "best"] = "best"
    folds: int | None = None
    variations: int = 12
    distill: Literal["trees"] | None = None
    seed: int = 0
    threads: int | None = None
    transforms: tuple[str, ...] = ()

    def fit(
        self, train: Dataset | Any, *more: Any, presets: Literal["fast", "good", "best"] | None = None, **options: Any
    ) -> Self:
        """Search for the best ensemble; parameters as for other rankers.

        ``metric`` is by default the ranker's; ``presets`` replaces the parameter of that name.
        """
        if presets is not None:
            self.set_params(presets=presets)
        if len(more) < 2 and options.get("metric") is None:  # the third argument is the metric
            options["metric"] = self.metric
        return super().fit(train, *more, **options)

    def _fit(self, train: Dataset, validation: Dataset | None, context: FitContext) -> None:
        if not self.minutes > 0:
            raise UsageError(f"AutoRanker needs minutes > 0, got {self.minutes!r}.")
        candidates = self._candidates()
        data = train if validation is None else concat([train, validation]).canonical()
        check_learnable(data)
        n_groups = int(group_codes(data).max()) + 1
        if n_groups < _MIN_GROUPS:
            what = "lists" if data.groups is None else "groups of lists"
            reason = f"{n_groups} {what} are too few for cross-fitting ({_MIN_GROUPS} are needed)"
            self._fit_simplest(data, context, reason)
            return
        with _open_folder(context) as folder:
            folds = self._choose_folds(candidates, data, folder)
            self._run(candidates, data, folds, folder, context)

    def _run(
        self, candidates: tuple[Candidate, ...], data: Dataset, folds: int, folder: Path, context: FitContext
    ) -> None:
        """Search, select the ensemble and distill it."""
        with self._open_processes(data, folds, context) as processes:
            spent = read_spent(folder)
            reserve = _FINISHING_SHARE + (_DISTILLING_SHARE if self.distill else 0.0)
            budget = TimeBudget(60 * self.minutes * (1 - reserve), spent, type(self).clock)
            search = self._search(folder, data, folds, context, budget, processes)
            try:
                search.run(order_candidates(candidates, data, folds, self._processor_seconds()))
                if self.presets == "best":
                    self._vary(search)
            except KeyboardInterrupt:
                if not search.finished:
                    raise
            self._finish(search, candidates, context)
            if self.distill and self.members_:
                distillation = distill_trees(
                    self.members_,
                    self.weights_,
                    data,
                    context,
                    seed=self.seed,
                    threads=self.threads,
                    seconds=60 * self.minutes - budget.spent,
                    clock=budget.clock,
                )
                self._set_distilled(distillation)

    def _vary(self, search: Search) -> None:
        """Try variations of the best candidates in the time that is left."""
        for number in range(self.variations):
            ranked = sorted(search.finished, key=lambda r: (-r.value, r.candidate.name))
            bases = [r.candidate for r in ranked if "~" not in r.candidate.name][:_VARIED]
            if not bases:
                break
            candidate = vary(bases[number % len(bases)], number, self.seed)
            left = search.budget.left
            if search.is_saved(candidate) or (left > 0 and search.predict_seconds(candidate) <= left):
                search.run([candidate])

    def _candidates(self) -> tuple[Candidate, ...]:
        candidates = find_candidates(self.members)
        if self.presets == "fast":
            (fast,) = find_candidates(_FAST)
            settings = {**fast.settings, **_FAST_SETTINGS}
            return (Candidate("fast", fast.recipe, settings, fast.seconds / 3),)
        if self.presets == "good":
            trees = tuple(c for c in candidates if c.family in _TREE_FAMILIES and not c.transforms)
            if not trees:
                raise UsageError(
                    f'presets="good" tries trees only, and members={self.members!r} has none; use presets="best".'
                )
            return trees
        return candidates

    def _choose_folds(self, candidates: Sequence[Candidate], data: Dataset, folder: Path) -> int:
        if self.folds is not None and self.folds < 3:
            raise UsageError(f"AutoRanker needs folds >= 3, got {self.folds}.")
        folds = self.folds or keep_folds(folder, choose_folds(candidates, data, self._processor_seconds()))
        return min(folds, (int(group_codes(data).max()) + 1) // 2)

    def _processor_seconds(self) -> float:
        return 60 * self.minutes * (self.threads or os.cpu_count() or 1)

    @contextmanager
    def _open_processes(self, data: Dataset, folds: int, context: FitContext) -> Iterator[LocalPool | None]:
        """Processes for the members; None: members are fitted in this process or on a cluster."""
        jobs = min(self.threads or os.cpu_count() or 1, folds)
        is_worth_it = jobs > 1 and _PROCESS_VALUES <= data.n_docs * data.n_features <= _SMALL_VALUES
        if not is_worth_it or self.presets == "fast" or context.cluster is not None:
            yield None
            return
        with (
            tempfile.TemporaryDirectory(prefix="plackett-auto-") as folder,
            LocalPool(jobs, threads=1, folder=Path(folder), kept=KEPT_MEMBERS) as pool,
        ):
            yield pool

    def _search(
        self,
        folder: Path,
        data: Dataset,
        folds: int,
        context: FitContext,
        budget: TimeBudget,
        processes: LocalPool | None,
    ) -> Search:
        missing = has_nan(data.features)
        is_small = data.n_docs * data.n_features <= _SMALL_VALUES

        def make_crossfit(candidate: Candidate) -> CrossFit:
            ranker = candidate.build(seed=self.seed, threads=1 if is_small else self.threads)
            if missing and not ranker.takes_missing:
                ranker.set_params(transforms=("impute", *ranker.transforms))
            crossfit = CrossFit(
                ranker,
                folds=folds,
                repeats=candidate.repeats_on(data),
                seed=self.seed,
                stop_on="next",
                transforms=candidate.transforms,
            )
            crossfit.recipe_name = candidate.recipe
            crossfit.processes = processes  # type: ignore[misc]
            return crossfit

        search = Search(folder, data, context.metrics, budget, make_crossfit, context.progress)
        search.callbacks, search.cluster = context.callbacks, context.cluster
        return search

    def _finish(self, search: Search, candidates: tuple[Candidate, ...], context: FitContext) -> None:
        """Select the ensemble from the finished candidates."""
        # In the order of the portfolio, not in the order in which they were finished.
        places = {candidate.name: place for place, candidate in enumerate(candidates)}
        finished = sorted(search.finished, key=lambda r: (places.get(r.candidate.name, len(places)), r.candidate.name))
        if not finished:
            notes = "; ".join(f"{r.candidate.name} {r.note}" for r in search.results.values())
            self._fit_simplest(search.data, context, f"no candidate could be cross-fitted: {notes}")
            return
        if len(finished) == 1 and len(candidates) > 1 and search.budget.left < 0:
            warnings.warn(
                f"{self.minutes:g} minutes were enough for one candidate only "
                f"({finished[0].candidate.name}); give more minutes for a better model.",
                DataWarning,
                stacklevel=2,
            )
        context.progress("selecting the ensemble", 0, 1)
        scores = np.stack([result.scores for result in finished if result.scores is not None])
        selection = select_ensemble(scores, search.data, search.metric, seed=self.seed)
        weights = dict(zip((r.candidate.name for r in finished), selection.weights.tolist(), strict=True))
        kept = [r.candidate for r in finished if weights[r.candidate.name] > 0]
        self._set_members(
            {candidate.name: search.model(candidate) for candidate in kept},
            np.array([weights[candidate.name] for candidate in kept]),
        )
        self.leaderboard_: tuple[LeaderboardRow, ...] = _make_leaderboard(search, selection, weights)
        """The ensemble, the candidates by their values on out-of-fold lists, and those that were not finished."""
        context.progress("selecting the ensemble", 1, 1)

    def _fit_simplest(self, data: Dataset, context: FitContext, reason: str) -> None:
        """Fit one linear model to all lists, if nothing else works."""
        ranker = recipe("listnet-linear", C=1.0, seed=self.seed)
        if has_nan(data.features):
            ranker.set_params(transforms=("impute", *ranker.transforms))
        warnings.warn(
            f"{reason}. The model is one linear model, and its quality is unknown.", DataWarning, stacklevel=2
        )
        ranker.fit(data, None, context.metrics)
        self._set_members({"listnet-linear": ranker}, np.ones(1))
        self.leaderboard_ = ()

    def _set_members(self, members: dict[str, Ranker], weights: NDArray[np.float64]) -> None:
        self.member_names_: tuple[str, ...] = tuple(members)
        self.members_: tuple[Ranker, ...] = tuple(members.values())
        """The members of the ensemble: cross-fits, or one linear model if there are too few lists for them."""
        self.weights_: NDArray[np.float64] = weights
        """Weights of the members; they sum to 1."""
        self.distillation_: Distillation | None = None
        """The distilled trees and what they lose; None without ``distill``."""
        self._set_parts([(m, float(w)) for m, w in zip(members.values(), weights, strict=True)])

    def _set_distilled(self, distillation: Distillation) -> None:
        """Replace the members that are not trees."""
        self.distillation_ = distillation
        student = distillation.ranker
        trees = [(m, w) for m, w in self._parts if is_sum_of_trees(m)]
        self._set_parts(trees if student is None else [(student, 1.0), *trees])

    def _set_parts(self, parts: list[tuple[Ranker, float]]) -> None:
        self._parts = parts
        self.__dict__.pop("_terms", None)

    def leaderboard(self) -> str:
        """The leaderboard as a table of text."""
        self._require_fitted()
        return format_table(self.leaderboard_, (self.training_ or {})["metric"][0])

    def summary(self) -> str:
        """A one-line description."""
        self._require_fitted()
        shares = ", ".join(
            f"{weight:.2f} {name}" for name, weight in zip(self.member_names_, self.weights_, strict=True)
        )
        prefix = "trees distilled from " if self.distillation_ is not None else ""
        return f"AutoRanker on {self.n_features_} features: {prefix}{shares}"

    def member_scores(self, data: Dataset) -> dict[str, Scores]:
        """The scores of each member of the ensemble, by name."""
        self._require_fitted()
        pairs = zip(self.member_names_, self.members_, strict=True)
        return {name: member.predict(data) for name, member in pairs}

    def parts(self) -> list[tuple[Ranker, float]]:
        """The rankers whose weighted sum the model is, with their weights."""
        self._require_fitted()
        return list(self._parts)

    @cached_property
    def _terms(self) -> tuple[dict[FittedTransform | None, list[Ensemble]], list[tuple[Ranker, float]]]:
        """All trees in one ensemble per transform and library, and the other members with their weights."""
        trees: dict[FittedTransform | None, list[tuple[Ensemble, float]]] = {}
        others: list[tuple[Ranker, float]] = []
        for ranker, weight in self.parts():
            found = find_trees(ranker, weight)
            if found is None:
                others.append((ranker, weight))
            else:
                trees.setdefault(ranker.transform_, []).extend(found)
        merged = {
            transform: [
                merge([t for t in terms if t[0].library == name]) for name in sorted({e.library for e, _ in terms})
            ]
            for transform, terms in trees.items()
        }
        return merged, others

    def _predict(self, data: Dataset) -> Scores:
        trees, others = self._terms
        total = np.zeros(data.n_docs)
        for transform in dict.fromkeys([*trees, *(ranker.transform_ for ranker, _ in others)]):
            members = [(ranker, weight) for ranker, weight in others if ranker.transform_ == transform]
            prepared = data
            if transform is not None:  # all members that share it get the same features
                features = apply_in_blocks(transform, data.features, data.offsets)
                names = data.feature_names and transform.names(data.feature_names)
                prepared = data._replace(features=features, feature_names=names)
            for ensemble in trees.get(transform, ()):
                total += ensemble.predict(prepared.features, n_threads=self.threads)
            for ranker, weight in members:
                scores = ranker.predict(data) if transform is None else ranker._predict(prepared)
                total += weight * scores
        return total

    @property
    def curves_(self) -> Curves:  # type: ignore[override]
        """Empty: the leaderboard shows how well the candidates did."""
        return {}

    @property
    def _importance_kinds(self) -> tuple[str, ...]:  # type: ignore[override]
        return ("shares",) if all(ranker._importance_kinds for ranker, _ in self.parts()) else ()

    def _importance(self, kind: str) -> NDArray[np.float64]:  # noqa: ARG002 - there is one
        terms = [(weight, ranker.importance_shares()) for ranker, weight in self.parts()]
        known = [weight * part for weight, part in terms if part is not None]
        return np.sum(known, axis=0) if known else np.zeros(self.n_features_ or 0)

    @property
    def _explained_by(self) -> Method:  # type: ignore[override]
        methods = {ranker._explained_by for ranker, _ in self.parts()}
        return methods.pop() if self.transform_ is None and len(methods) == 1 else "replacement"

    def _contributions(self, features: Any, offsets: Offsets) -> tuple[float, NDArray[np.float64]]:
        terms = [(w, *ranker._contributions(features, offsets)) for ranker, w in self.parts()]
        base = sum(weight * base for weight, base, _ in terms)
        return float(base), np.sum([weight * values for weight, _, values in terms], axis=0)

    def _write(self, folder: Path) -> None:
        for j, (ranker, _) in enumerate(self._parts):
            ranker.save(folder / f"part-{j}")
        distilled = self.distillation_
        content = {
            "names": list(self.member_names_),
            "weights": self.weights_.tolist(),
            "parts": [weight for _, weight in self._parts],
            "leaderboard": [row.to_dict() for row in self.leaderboard_],
            "distillation": None if distilled is None else distilled.to_dict(),
        }
        (folder / _FILE).write_text(json.dumps(content), encoding="utf-8")

    def _read(self, folder: Path) -> None:
        from plackett.models.load import load

        path = folder / _FILE
        try:
            content = json.loads(path.read_text(encoding="utf-8"))
            names = tuple(str(name) for name in content["names"])
            weights, factors = (np.array(content[key], dtype=np.float64) for key in ("weights", "parts"))
            leaderboard = read_rows(content["leaderboard"])
            distilled = content["distillation"]
        except (OSError, ValueError, KeyError, TypeError, ArithmeticError, RecursionError) as error:
            raise DataError("does not describe an ensemble", path=str(path)) from error
        if weights.shape != (len(names),) or not np.all(np.isfinite(weights) & (weights >= 0)):
            raise DataError(f"must hold {len(names)} weights", path=str(path))
        if factors.shape != (len(factors),) or (distilled is None and not np.array_equal(factors, weights)):
            raise DataError("the parts are not those of the members", path=str(path))
        parts = [load(folder / f"part-{j}") for j in range(len(factors))]
        for ranker in parts:
            if ranker.n_features_ != self.n_features_:
                raise DataError("members differ in their number of features", path=str(folder))
        if distilled is None:
            self._set_members(dict(zip(names, parts, strict=True)), weights)
        else:  # members that are not trees are not saved
            self._set_members({}, np.empty(0))
            self.member_names_, self.weights_ = names, weights
            self.distillation_ = Distillation.from_dict(distilled, path, parts)
            self._set_parts(list(zip(parts, factors.tolist(), strict=True)))
        self.leaderboard_ = leaderboard


@contextmanager
def _open_folder(context: FitContext) -> Iterator[Path]:
    """The folder of the checkpoint, or a temporary one."""
    if context.checkpoint is not None:
        yield context.checkpoint.folder
    else:
        with tempfile.TemporaryDirectory(prefix="plackett-auto-") as folder:
            yield Path(folder)


def find_trees(ranker: Ranker, factor: float) -> list[tuple[Ensemble, float]] | None:
    """The tree ensembles, with factors, that sum to a ranker after its transform; None if it is no such sum."""
    if isinstance(ranker, TreeRanker):
        return [(ranker._ensemble, factor)]
    if isinstance(ranker, EnsembleRanker):
        # XGBoost rounds sums to float32: scaled leaves would give other scores.
        is_exact = ranker.ensemble_.library != "xgboost"
        return [(ranker.ensemble_, factor)] if is_exact else None
    if not isinstance(ranker, CrossFit) or ranker.combine != "scale":
        return None
    trees: list[tuple[Ensemble, float]] = []
    for member, scale in zip(ranker.members_, ranker.scales_, strict=True):
        found = find_trees(member, factor / len(ranker.members_) / float(scale))
        if found is None or member.transform_ is not None:
            return None
        trees.extend(found)
    return trees


def _make_leaderboard(
    search: Search, selection: EnsembleSelection, weights: dict[str, float]
) -> tuple[LeaderboardRow, ...]:
    data = search.data

    def values(scores: Scores) -> NDArray[np.float64]:
        return search.metric(scores, data.labels, data.offsets, data.document_ids, data.keys)

    finished = {r.candidate.name: r for r in search.finished}
    by_name = {name: values(r.scores) for name, r in finished.items() if r.scores is not None}
    best = max(finished, key=lambda name: finished[name].value)
    baseline = by_name.get(BASELINE)
    rows = [
        make_row(
            name,
            by_name[name],
            best=None if name == best else by_name[best],
            baseline=None if name == BASELINE else baseline,
            weight=weights.get(name, 0.0),
            seconds=result.seconds,
        )
        for name, result in finished.items()
    ]
    rows.sort(key=lambda row: row.value or 0.0, reverse=True)
    ensemble = make_row(
        ENSEMBLE,
        values(selection.scores),
        best=by_name[best],
        baseline=baseline,
        weight=1.0,
        seconds=sum(result.seconds for result in finished.values()),
    )
    unfinished = [
        LeaderboardRow(r.candidate.name, None, seconds=r.seconds, note=r.note)
        for r in search.results.values()
        if r.scores is None
    ]
    return (ensemble, *rows, *unfinished)
