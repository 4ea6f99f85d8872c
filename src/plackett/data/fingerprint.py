"""A short name for the contents of a data set, so that results can say what they were made from."""

from __future__ import annotations

import hashlib

import numpy as np

from plackett.data.arrays import first_appearance
from plackett.data.dataset import Dataset


def fingerprint(data: Dataset) -> str:
    """32 hexadecimal digits of the features and their names, labels, lists, weights and groups.

    The keys of the lists are hashes of their documents, so features are not read again. The order
    of rows and the names of queries do not matter.
    """
    digest = hashlib.sha256()
    for array in (data.keys, data.offsets, data.labels):
        digest.update(np.ascontiguousarray(array).tobytes())
    for name, weights in ((b"weights", data.weights), (b"documents", data.document_weights)):
        if weights is not None:
            digest.update(name + np.ascontiguousarray(weights).tobytes())
    if data.groups is not None:  # random divisions depend on them
        digest.update(b"groups" + first_appearance(data.groups)[1].tobytes())
    digest.update(repr((data.n_features, data.feature_names)).encode())
    return digest.hexdigest()[:32]
