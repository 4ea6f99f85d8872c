r"""Transforms that add features of the list: the kind of query, and how a document compares with its list.

:class:`ListMeans` adds, for each feature, its mean over the documents of the list, and the number of
documents. These are the same for all documents of a list; a model that combines features, such as trees
or a net, can rank the documents of different kinds of queries differently.

:class:`ListContext` also adds the standard deviation of each feature in the list, and the standard score
of the document,

.. math:: z_i = (x_i - \bar x) / \sigma_x

which is 0 where all documents have the same value. NaN is ignored, and its standard score is NaN.

The original features come first and are unchanged. Values are summed in the order of their size, so that
the order of the documents does not affect any bit of the result. A search engine that scores one document
at a time cannot compute these features: models with them are served by plackett, or distilled.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from scipy.sparse import csr_array

from plackett.base.kernels import compiled
from plackett.base.ragged import Features, Offsets, as_offsets
from plackett.base.threads import run_parallel
from plackett.data.transforms.base import StatelessTransform, require_dense

_LEAST_LISTS = 5  # minimum number of lists per thread


@dataclass(frozen=True, eq=False)
class ListMeans(StatelessTransform):
    """Add the mean of each feature over the list, and the number of documents.

    Examples
    --------
    >>> import numpy as np
    >>> x = np.array([[1.0], [3.0], [7.0]], np.float32)
    >>> ListMeans().apply(x, np.array([0, 2, 3])).tolist()
    [[1.0, 2.0, 2.0], [3.0, 2.0, 2.0], [7.0, 7.0, 1.0]]
    """

    name: ClassVar[str] = "list-means"
    uses_lists: ClassVar[bool] = True
    added: ClassVar[tuple[str, ...]] = ("mean",)
    """The statistics that are added for each feature."""

    def width(self, n_features: int) -> int:
        return n_features * (1 + len(self.added)) + 1

    def source(self, n_features: int) -> Iterator[int]:
        for _ in range(1 + len(self.added)):
            yield from range(n_features)
        yield -1

    def names(self, names: tuple[str, ...]) -> tuple[str, ...]:
        added = [f"{name} ({what} of the list)" for what in self.added for name in names]
        unique = dict.fromkeys(names)
        for name in (*added, "documents"):
            while name in unique:
                name += "'"
            unique[name] = None
        return tuple(unique)

    def apply(self, features: Features | csr_array, offsets: Offsets) -> Features:
        matrix = require_dense(features, self.name)
        bounds = as_offsets(offsets, len(matrix))
        out = np.empty((len(matrix), self.width(matrix.shape[1])), np.float32)
        out[:, -1] = np.repeat(np.diff(bounds), np.diff(bounds))
        run_parallel(_describe_lists, len(bounds) - 1, matrix, bounds, len(self.added), out, least=_LEAST_LISTS)
        return out


@dataclass(frozen=True, eq=False)
class ListContext(ListMeans):
    """Add mean, standard deviation and standard score of each feature in the list, and the number of documents.

    Examples
    --------
    >>> import numpy as np
    >>> x = np.array([[1.0], [3.0], [7.0]], np.float32)
    >>> ListContext().apply(x, np.array([0, 2, 3])).tolist()
    [[1.0, 2.0, 1.0, -1.0, 2.0], [3.0, 2.0, 1.0, 1.0, 2.0], [7.0, 7.0, 0.0, 0.0, 1.0]]
    """

    name: ClassVar[str] = "list-context"
    added: ClassVar[tuple[str, ...]] = ("mean", "deviation", "standard score")


@compiled
def _describe_lists(first, last, features, offsets, n_added, out):  # type: ignore[no-untyped-def]
    n_features = features.shape[1]
    for q in range(first, last):
        start, stop = offsets[q], offsets[q + 1]
        for j in range(n_features):
            values = np.sort(features[start:stop, j].astype(np.float64))  # NaN comes last
            count = len(values)
            while count > 0 and np.isnan(values[count - 1]):
                count -= 1
            mean, deviation = np.nan, np.nan
            if count > 0:
                base, total, squares = values[0], 0.0, 0.0
                for k in range(count):  # differences from the least: a constant feature has exactly its value as mean
                    total += values[k] - base
                mean = base + total / count
                for k in range(count):
                    squares += (values[k] - mean) ** 2
                deviation = np.sqrt(squares / count)
            for i in range(start, stop):
                value = features[i, j]
                out[i, j] = value
                out[i, n_features + j] = mean
                if n_added == 3:
                    out[i, 2 * n_features + j] = deviation
                    score = np.float64(value) - mean  # NaN stays NaN
                    out[i, 3 * n_features + j] = score / deviation if deviation > 0.0 else score * 0.0
