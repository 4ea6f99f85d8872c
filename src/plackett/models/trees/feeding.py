"""Our data sets as LightGBM's, without copying features.

Features on disk go through LightGBM's ``Sequence``, block by block. LightGBM draws the same sample
of rows for its bins either way, so the model is the same to the bit.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from plackett.data.dataset import Dataset
from plackett.data.disk_arrays import is_large
from plackett.models.trees.settings import BUILT_IN, feature_indices

if TYPE_CHECKING:
    from plackett.models.trees.ranker import TreeRanker


def lightgbm_data(ranker: TreeRanker, data: Dataset, reference: Any = None) -> Any:
    """A LightGBM data set.

    LightGBM limits labels to 30 and lists to 10,000 documents, for its own objectives. Ours do not
    go through it, so it is shown neither labels nor lists.
    """
    from plackett.models.trees.sequences import BlockDataset, Blocks

    built_in = ranker.objective in BUILT_IN
    weights = None
    if data.weights is not None and built_in:
        weights = np.repeat(data.weights, np.diff(data.offsets))
    names, features = ranker.feature_names_, data.features
    return BlockDataset(
        Blocks(features) if is_large(features) else features,
        data.labels if built_in else np.zeros(data.n_docs, np.float32),
        group=np.diff(data.offsets) if built_in else None,
        weight=weights,
        reference=reference,
        # LightGBM refuses some characters in names; ours are kept beside the model.
        feature_name=[f"f{j}" for j in range(data.n_features)] if names else "auto",
        categorical_feature=feature_indices(ranker, ranker.categorical),
        free_raw_data=False,
    )
