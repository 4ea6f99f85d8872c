"""The portfolio: settings worth trying, and the order in which a budget is spent on them.

Each candidate is a recipe with changed settings. For each candidate the portfolio holds the mean
gain that it brought to ensembles of some of the others, on small, medium and large data, and the
seconds that one fit took per million feature values. Candidates are tried in the order of expected
gain per second. ``benchmarks/auto_portfolio.py`` measures the numbers and writes
``portfolio.json``, which states the data they were measured on.
"""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib.resources import files
from importlib.util import find_spec
from typing import Any, Literal

import numpy as np

from plackett.base.errors import UsageError, unknown_name
from plackett.data import Dataset, group_codes
from plackett.models.ranker import Ranker
from plackett.models.recipes import RECIPES, recipe
from plackett.models.recipes.search_spaces import (
    FAMILIES,
    Choice,
    Dimension,
    Whole,
    family_of,
    get_setting,
    search_space_of,
    with_settings,
)

Size = Literal["small", "medium", "large"]
SIZES: tuple[Size, ...] = ("small", "medium", "large")
_MEDIUM_LISTS, _LARGE_LISTS = 500, 5_000
_PARTS, _FEW_LISTS = (8, 5, 4), 1_000
_BASELINE_SHARE = 0.2
_CHANGED = 0.5  # share of the settings that a variation changes


@dataclass(frozen=True)
class Candidate:
    """A ranker to try."""

    name: str
    recipe: str
    settings: Mapping[str, Any] = field(default_factory=dict)
    """Changed settings by path, as in :mod:`plackett.models.recipes.search_spaces`."""
    seconds: float = 1.0
    """Seconds of one fit per million feature values (documents times features), on one core."""
    gains: tuple[float, ...] = (1.0, 1.0, 1.0)
    """Expected gain in thousandths of NDCG on small, medium and large data."""
    transforms: tuple[str, ...] = ()
    """Applied to the features of all members."""
    repeats: int = 1
    """Number of times that small data are divided into parts, each time with members of their own."""

    @property
    def family(self) -> str:
        """The kind of model: a key of :data:`~plackett.models.recipes.search_spaces.FAMILIES`."""
        return family_of(self.recipe)

    def build(self, *, seed: int, threads: int | None) -> Ranker:
        """The unfitted ranker."""
        ranker = with_settings(recipe(self.recipe), self.settings)
        common = {"seed": seed, "threads": threads}
        known = ranker.get_params()
        return ranker.set_params(**{k: v for k, v in common.items() if k in known})

    def expected_seconds(self, data: Dataset, folds: int) -> float:
        """Expected seconds of cross-fitting, before anything has been measured on these data."""
        millions = data.n_docs * data.n_features / 1e6
        return folds * self.repeats_on(data) * (SECONDS_PER_FIT + self.seconds * millions)

    def repeats_on(self, data: Dataset) -> int:
        """Number of times that these data are divided into parts."""
        return self.repeats if size_of(data) == "small" else 1


SECONDS_PER_FIT = 0.2
"""Fixed seconds of one fit, whatever the size of the data."""

BASELINE = "lightgbm-defaults"
"""The candidate that the leaderboard compares the others with."""

_SMOOTH = {"lightgbm.path_smooth": 10.0}
_QUICK_NET = {"learning_rate": 1e-3, "batch_lists": 8, "epochs": 40, "patience": 8}
_LINEAR = {"C": tuple(10.0**k for k in range(-4, 4))}
_DEFAULTS_OF_LIGHTGBM = {
    "trees": 100,
    "learning_rate": 0.1,
    "leaves": 31,
    "min_documents": 20,
    "feature_fraction": 1.0,
    "smoothing": 1,
}
_CONTEXT = ("list-context",)  # features of the whole list, and of how a document compares with the others
# On small data, nets and linear models are cheap, and differ more than trees do: three averaged ones are better.
_REPEATS = 3
_UNMEASURED = (
    Candidate("listnet-linear", "listnet-linear", _LINEAR, repeats=_REPEATS),
    Candidate(BASELINE, "lightgbm-lambdarank", _DEFAULTS_OF_LIGHTGBM),
    Candidate("e-lambdaloss-smooth", "e-lambdaloss-mart", _SMOOTH),
    Candidate("e-xendcg-smooth", "e-xendcg-mart", _SMOOTH),
    Candidate("e-lambdaloss-context", "e-lambdaloss-mart", _SMOOTH, transforms=_CONTEXT),
    Candidate("e-lambdaloss-means", "e-lambdaloss-mart", _SMOOTH, transforms=("list-means",)),
    Candidate("e-xendcg-context", "e-xendcg-mart", _SMOOTH, transforms=_CONTEXT),
    Candidate("urank-quick", "urank", _QUICK_NET, repeats=_REPEATS),
    Candidate("urank-context", "urank", _QUICK_NET, transforms=_CONTEXT, repeats=_REPEATS),
    Candidate("e-lambdamart-smooth", "e-lambdamart", _SMOOTH),
    Candidate("e-lambdaloss-plain", "e-lambdaloss-mart", {"lightgbm.path_smooth": 0.0}),
    Candidate("e-xendcg-l2", "e-xendcg-mart", {"lightgbm.lambda_l2": 10.0, "leaves": 16, "feature_fraction": 0.3}),
    Candidate("lambdaloss-net-quick", "lambdaloss-net", _QUICK_NET | {"dropout": 0.1}, repeats=_REPEATS),
    Candidate(
        "lambdaloss-net-context", "lambdaloss-net", _QUICK_NET | {"dropout": 0.1}, transforms=_CONTEXT, repeats=_REPEATS
    ),
    Candidate("e-approxndcg-net-quick", "e-approxndcg-net", _QUICK_NET, repeats=_REPEATS),
    Candidate("logrank-convex-ndcg", "logrank-convex-ndcg", _LINEAR, repeats=_REPEATS),
    Candidate("urank", "urank"),
    Candidate("catboost-yetirank", "catboost-yetirank"),
    Candidate("xgboost-ndcg", "xgboost-ndcg", {"settings.max_depth": 4}),
)


def _load_candidates() -> tuple[Candidate, ...]:
    text = files("plackett.models.auto").joinpath("portfolio.json").read_text(encoding="utf-8")
    measured = json.loads(text)
    candidates = []
    for candidate in _UNMEASURED:
        numbers = measured.get(candidate.name, {})
        gains = tuple(numbers.get("gains", {}).get(size, 1.0) for size in SIZES)
        candidates.append(replace(candidate, seconds=numbers.get("seconds", 3.0), gains=gains))
    return tuple(candidates)


CANDIDATES: tuple[Candidate, ...] = _load_candidates()
"""Every candidate; the order breaks ties and numbers the members of an ensemble."""


def size_of(data: Dataset) -> Size:
    """The size class of the data, by its number of lists."""
    if data.n_lists < _MEDIUM_LISTS:
        return "small"
    return "medium" if data.n_lists < _LARGE_LISTS else "large"


def choose_folds(candidates: Sequence[Candidate], data: Dataset, seconds: float) -> int:
    """The number of parts for cross-fitting: as many as leave time for all trees, but 4 at least.

    A member learns from all parts but two. With few lists that matters most: on 1,000 lists, 8 parts instead of 5 were
    worth .002 of NDCG@10. With more lists, fewer parts are as good, and leave time for more candidates.
    """
    n_groups = int(group_codes(data).max()) + 1
    if n_groups <= _FEW_LISTS:
        return _PARTS[0]
    trees = [c for c in candidates if c.family == "trees" and not c.transforms]
    choices = _PARTS if n_groups <= _LARGE_LISTS else _PARTS[1:]
    fitting = [n for n in choices if sum(c.expected_seconds(data, n) for c in trees) <= seconds]
    return (*fitting, _PARTS[-1])[0]


def order_candidates(
    candidates: Sequence[Candidate], data: Dataset, folds: int, seconds: float = math.inf
) -> tuple[Candidate, ...]:
    """The candidates by expected gain per second for data of this size.

    The cheapest comes first, so that a model exists early, and the baseline second, unless it would take more than a
    fifth of the ``seconds``.
    """
    place = SIZES.index(size_of(data))

    def density(candidate: Candidate) -> float:
        return candidate.gains[place] / candidate.expected_seconds(data, folds)

    first = min(candidates, key=lambda c: c.expected_seconds(data, folds))
    ordered = sorted((c for c in candidates if c is not first), key=density, reverse=True)
    # Stable: only the baseline moves.
    ordered.sort(key=lambda c: c.name != BASELINE or c.expected_seconds(data, folds) > _BASELINE_SHARE * seconds)
    return (first, *ordered)


def vary(candidate: Candidate, number: int, seed: int) -> Candidate:
    """A candidate with some settings changed at random, within the search space of its recipe.

    It depends on the candidate, the number and the seed only.
    """
    name = f"{candidate.name}~{number}"
    rng = np.random.default_rng(np.random.SeedSequence([seed, *name.encode()]))
    ranker = candidate.build(seed=0, threads=None)
    changes: dict[str, Any] = {}
    for path, dimension in search_space_of(ranker).items():
        if rng.random() < _CHANGED:
            changes[path] = _move(get_setting(ranker, path), dimension, rng)
    return replace(candidate, name=name, settings={**candidate.settings, **changes})


def _move(value: Any, dimension: Dimension, rng: np.random.Generator) -> Any:
    """A value near this one, on average a quarter of the range away; any option if it is not a number."""
    if isinstance(dimension, Choice):
        return dimension.options[int(rng.integers(len(dimension.options)))]
    low, high = dimension.low, dimension.high
    if dimension.log:
        low, high = math.log(low), math.log(high)
    is_number = isinstance(value, (int, float)) and value > 0
    if is_number:
        center = math.log(value) if dimension.log else float(value)
        moved = center + 0.25 * (high - low) * float(rng.standard_normal())
    else:
        moved = float(rng.uniform(low, high))
    moved = min(max(moved, low), high)
    result = math.exp(moved) if dimension.log else moved
    if isinstance(dimension, Whole):
        return min(max(round(result), dimension.low), dimension.high)
    return min(max(float(f"{result:.3g}"), dimension.low), dimension.high)


def find_candidates(members: str | Sequence[str]) -> tuple[Candidate, ...]:
    """The candidates that a user names: ``"auto"``, families, candidates or recipes."""
    names = (members,) if isinstance(members, str) else tuple(members)
    if not names:
        raise UsageError('members is empty; write "auto" for all kinds of models.')
    chosen = {candidate.name: candidate for name in names for candidate in _named(name)}
    available = tuple(c for c in chosen.values() if _is_installed(c))
    if not available:
        raise UsageError(
            f"none of {', '.join(chosen)} can run: install their libraries (pip install 'plackett[neural,peers]')."
        )
    return available


def _named(name: str) -> list[Candidate]:
    if name == "auto":
        return list(CANDIDATES)
    if name in FAMILIES:
        return [c for c in CANDIDATES if c.family == name and not c.transforms]
    by_name = {c.name: c for c in CANDIDATES}
    if name in by_name:
        return [by_name[name]]
    if name in RECIPES:
        return [Candidate(name, name, seconds=3.0)]
    raise unknown_name("member", name, ["auto", *FAMILIES, *by_name, *RECIPES])


_LIBRARIES = {"nets": "torch", "boosted nets": "torch", "catboost": "catboost", "xgboost": "xgboost"}


def _is_installed(candidate: Candidate) -> bool:
    library = _LIBRARIES.get(candidate.family)
    return library is None or find_spec(library) is not None
