"""Names of features, and what each target demands of them."""

from __future__ import annotations

from collections.abc import Sequence

from plackett.base.errors import UsageError
from plackett.models.ensembles import EnsembleRanker
from plackett.models.ranker import Ranker

_LIGHTGBM = ' \t\r\n",:[]{}'
_XGBOOST = "[]<"

_FORBIDDEN = {
    "lightgbm-text": _LIGHTGBM,
    "xgboost-json": _XGBOOST,
    "xgboost-ubj": _XGBOOST,
    "opensearch-xgboost": _XGBOOST,
}
"""Characters that a target refuses in names."""


def _of_file(ranker: Ranker) -> tuple[str, ...] | None:
    """Names that an imported model's file gives, but not those that LightGBM makes up."""
    names = ranker.ensemble_.feature_names if isinstance(ranker, EnsembleRanker) else None
    made_up = names and all(name == f"Column_{j}" for j, name in enumerate(names))
    return None if made_up else names


def names_for(ranker: Ranker, form: str, given: Sequence[str] | None) -> tuple[str, ...]:
    """Those given, else the model's or its file's, else f1, f2 and so on."""
    count = ranker.n_features_ or 0
    names = tuple(given) if given is not None else ranker.feature_names_ or _of_file(ranker)
    if names is None:
        return tuple(f"f{j + 1}" for j in range(count))
    if len(names) != count:
        raise UsageError(f"{len(names)} feature names for a model of {count} features.")
    if len(set(names)) != count:
        twice = next(name for i, name in enumerate(names) if name in names[:i])
        raise UsageError(f"two features are called {twice!r}; names must differ.")
    for name in names:
        wrong = sorted(set(name) & set(_FORBIDDEN.get(form, "")))
        if wrong or not name:
            raise UsageError(
                f"{form} cannot hold the feature name {name!r}"
                + (f": it contains {wrong[0]!r}" if wrong else "")
                + "; give others with feature_names=."
            )
    return names
