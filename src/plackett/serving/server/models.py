"""A model that is being served: what it is called, which version it is, how it scores."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from plackett.base.errors import DataError
from plackett.base.ragged import Scores
from plackett.models.artifact.load import load
from plackett.models.artifact.save import NAME
from plackett.models.ranker import Ranker
from plackett.serving.server.bodies import FeatureNames, Lists
from plackett.serving.server.refusals import Refusal
from plackett.serving.server.scoring import ALONE, Scorer, scorer_of, takes_missing, warm

VERSION_DIGITS = 12
_UNPROCESSABLE = 422


@dataclass(frozen=True, eq=False)
class Model:
    """A loaded model under a name; never changed, only replaced."""

    name: str
    version: str
    """The beginning of the SHA-256 of its manifest, which holds the sums of all its files."""
    path: Path
    ranker: Ranker
    names: FeatureNames
    takes_missing: bool
    scorer: Scorer = field(repr=False)

    def score(self, lists: Lists) -> Scores:
        """Scores of all documents; raises :class:`Refusal` where the model cannot take them."""
        if not self.takes_missing:
            self._check_present(lists)
        scores = self.scorer(lists.features, lists.offsets)
        if not np.isfinite(scores).all():
            raise Refusal(
                _UNPROCESSABLE,
                f"document {int(np.argmin(np.isfinite(scores)))} (counted over all lists) has no "
                "finite score: its features are too large for this model.",
            )
        return scores

    def _check_present(self, lists: Lists) -> None:
        missing = np.isnan(lists.features)
        if missing.any():
            i, j = np.argwhere(missing)[0]
            raise Refusal(
                _UNPROCESSABLE,
                f"document {i} (counted over all lists) lacks feature "
                f"{self.names.names[j]!a}, and this model takes no missing features.",
            )

    def to_dict(self) -> dict[str, Any]:
        """What clients are told about it."""
        return {
            "name": self.name,
            "version": self.version,
            "kind": type(self.ranker).__name__,
            "recipe": self.ranker.recipe_name,
            "summary": self.ranker.summary(),
            "takes_missing": self.takes_missing,
            "features": list(self.names.names),
        }


def load_model(name: str, path: Path) -> Model:
    """Read a folder, check it, and run it once; raises DataError if it is no model."""
    version = version_of(path)
    with ALONE:
        ranker = load(path)
    assert ranker.n_features_ is not None
    named = ranker.feature_names_ or tuple(str(j + 1) for j in range(ranker.n_features_))
    score = scorer_of(ranker)
    warm(score, len(named))
    allowed = takes_missing(score, len(named))
    if version_of(path) != version:
        raise DataError("was replaced while it was being read", path=str(path))
    return Model(name, version, path, ranker, FeatureNames(named), allowed, score)


def version_of(path: Path) -> str:
    """The version of the model in a folder."""
    return hashlib.sha256((path / NAME).read_bytes()).hexdigest()[:VERSION_DIGITS]
