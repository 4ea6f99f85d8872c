"""LightGBM's text, as far as a sum of trees is what it describes."""

from __future__ import annotations

import re

from plackett.base.errors import DataError
from plackett.models.ensembles import Ensemble, read_lightgbm
from plackett.models.ensembles.words import text_of

_HEADER_END = "\nTree="


def read_lightgbm_sum(source: str | bytes) -> Ensemble:
    """Read a model of LightGBM whose score is the sum of its trees, not their mean."""
    text = text_of(source)
    if re.search(r"^average_output", text.partition(_HEADER_END)[0], re.MULTILINE):
        raise DataError("the model averages its trees (boosting=rf); only sums of trees are read.")
    return read_lightgbm(text)
