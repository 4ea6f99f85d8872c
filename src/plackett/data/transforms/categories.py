r"""Categories as numbers, for models that cannot split sets of values: linear models, nets, stumps.

A category c becomes the mean of its documents' labels, relative to their lists:

.. math:: v_c = \frac{1}{n_c + 10} \sum_{i \in c} \left(y_i - \bar y_{q(i)}\right)

over the :math:`n_c` documents of train that have it, where :math:`\bar y_q` is the mean label of a
list (a target encoding as in Micci-Barreca 2001, "A preprocessing scheme for high-cardinality
categorical attributes"). The 10 draws rare categories to 0, the value of a missing or unknown one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from plackett.base.errors import DataError
from plackett.base.ragged import Features, Offsets
from plackett.data.transforms.base import FittedTransform, require_dense

if TYPE_CHECKING:
    from plackett.data.dataset import Dataset

_PRIOR_DOCUMENTS = 10


@dataclass(frozen=True, eq=False, repr=False)
class FittedCategories(FittedTransform):
    """A number for each value of the features that hold categories; other features stay."""

    name: ClassVar[str] = "categories"
    columns: tuple[int, ...]
    sizes: tuple[int, ...]
    """The number of values of each of these columns."""
    values: NDArray[np.float64]
    """Those of all columns, one after the other."""

    def __post_init__(self) -> None:
        self._check_fields(floats=["values"], counts=["columns", "sizes"])
        if len(self.columns) != len(self.sizes) or sum(self.sizes) != len(self.values):
            raise DataError("categories: columns, sizes and values must belong together.")

    def apply(self, features: Features | csr_array, offsets: Offsets) -> Features:
        out = require_dense(features, self.name).copy()
        if self.columns and max(self.columns) >= out.shape[1]:
            raise DataError(f"categories: there is no feature {max(self.columns) + 1}.")
        tables = np.split(self.values, np.cumsum(self.sizes)[:-1]) if self.columns else []
        for column, table in zip(self.columns, tables, strict=True):
            numbers = out[:, column]
            known = (numbers >= 0) & (numbers < len(table))  # NaN is not
            codes = np.where(known, numbers, len(table)).astype(np.int64)
            out[:, column] = np.append(table, 0.0)[codes]
        return out

    def __repr__(self) -> str:
        return f"FittedCategories({len(self.columns)} features)"


def encode_categories(dataset: Dataset) -> FittedCategories:
    """Fit the encoding to the labels of a data set in canonical order (train, never test)."""
    categories, names = dataset.categories or {}, dataset.feature_names or ()
    means = dataset.reduce_lists(np.add, dataset.labels.astype(np.float64)) / dataset.list_sizes
    relative = dataset.labels - means[dataset.list_of_row]
    columns = tuple(names.index(name) for name in categories)
    sizes = tuple(len(values) for values in categories.values())
    tables = [np.empty(0)]
    for column, size in zip(columns, sizes, strict=True):
        numbers = np.asarray(dataset.features[:, column])
        known = ~np.isnan(numbers)
        codes = numbers[known].astype(np.int64)
        sums = np.bincount(codes, relative[known], minlength=size)
        tables.append(sums / (np.bincount(codes, minlength=size) + _PRIOR_DOCUMENTS))
    return FittedCategories(columns, sizes, np.concatenate(tables))
