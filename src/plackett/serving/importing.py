"""Models trained elsewhere, as rankers.

Model files of other libraries, recognised by how they begin.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from plackett.base.errors import DataError, UsageError
from plackett.models.ensembles import READERS, EnsembleRanker

FORMS = tuple(READERS)
"""Whose files are read."""


def import_model(
    path: str | os.PathLike[str],
    *,
    form: str | None = None,
    n_features: int | None = None,
    feature_names: Sequence[str] | None = None,
) -> EnsembleRanker:
    """Read a model that was trained elsewhere.

    Parameters
    ----------
    path
        A file of LightGBM (text), XGBoost (JSON or UBJSON) or RankLib (LambdaMART or MART).
    form
        ``lightgbm``, ``xgboost`` or ``ranklib``; by default, whichever the file begins like.
    n_features
        Features of the documents. RankLib's files do not say it: by default, the largest number
        that a tree uses. For other files it must be what the file says.
    feature_names
        Names that replace those of the file; features are then checked by name.

    Returns
    -------
    ranker
        It predicts, evaluates, saves and loads like any ranker; ``fit`` refuses.
    """
    file = Path(path)
    source = file.read_bytes()
    chosen = _recognised(source, file) if form is None else form
    if chosen not in FORMS:
        raise UsageError(f"there is no form {chosen!r} to import; there are {', '.join(FORMS)}.")
    names = None if feature_names is None else tuple(feature_names)
    try:
        return EnsembleRanker().take(source, chosen, n_features=n_features, feature_names=names)
    except DataError as error:
        raise DataError(str(error), path=str(file)) from error


def _recognised(source: bytes, file: Path) -> str:
    begin = source[:4096].lstrip()
    if begin.startswith(b"tree"):
        return "lightgbm"
    if begin.startswith(b"{"):
        return "xgboost"
    if begin.startswith((b"##", b"<ensemble")):
        return "ranklib"
    raise DataError(
        "is no model of LightGBM (text), XGBoost (JSON, UBJSON) or RankLib (XML); say which "
        "with form=",
        path=str(file),
    )


__all__ = [
    "FORMS",
    "import_model",
]
