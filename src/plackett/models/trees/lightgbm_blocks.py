"""Features on disk as LightGBM's ``Sequence``: it asks for sampled rows first, then for blocks."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import lightgbm
import numpy as np
from numpy.typing import NDArray

from plackett.base.ragged import Features
from plackett.data.large_arrays import release_pages, rows_per_block
from plackett.models.trees.lightgbm_data import check_memory_for_bins, predicted

_RELEASED_AFTER = 1024  # single rows: each one may bring a few neighbouring pages along


class Blocks(lightgbm.Sequence):  # type: ignore[misc]
    """Rows of features on disk, which LightGBM copies into its bins."""

    def __init__(self, features: Features) -> None:
        self.features = features
        self.batch_size = rows_per_block(features[0].nbytes)
        self._singles = 0

    def __len__(self) -> int:
        return len(self.features)

    def __getitem__(self, index: Any) -> NDArray[Any]:
        if isinstance(index, slice):
            block = self.features[index].copy()
            release_pages(self.features)
            return block
        self._singles += 1
        if self._singles % _RELEASED_AFTER == 0:
            release_pages(self.features)
        # The sample must be float64; float32 numbers keep their values.
        return self.features[index].astype(np.float64)


class BlockDataset(lightgbm.Dataset):  # type: ignore[misc]
    """LightGBM's data set, which does with blocks what it does with a matrix.

    - LightGBM draws the sample for the bins, and drops features that cannot be split, by all of its
      parameters. For a ``Sequence`` it would leave out those that it holds not to be of the data:
      the seed and the least number of documents of a leaf among them.
    - To go on from a model, LightGBM scores the features with it and starts from these scores. It
      cannot do so with a ``Sequence``; here it does, block by block, with the same predictor.
    """

    _all_parameters = False

    def get_params(self) -> dict[str, Any]:
        """The parameters that are handed to LightGBM."""
        if self._all_parameters and self.params is not None:
            return dict(self.params)
        return dict(super().get_params())

    def _create_sample_indices(self, *, total_nrow: int) -> NDArray[np.int32]:
        with self._by_all_parameters():
            return np.asarray(super()._create_sample_indices(total_nrow=total_nrow))

    def _init_from_sample(
        self,
        sample_data: list[NDArray[Any]],
        sample_indices: list[NDArray[Any]],
        sample_cnt: int,
        total_nrow: int,
    ) -> BlockDataset:
        check_memory_for_bins(sample_data, sample_cnt, total_nrow, self.params or {})
        with self._by_all_parameters():
            super()._init_from_sample(sample_data, sample_indices, sample_cnt, total_nrow)
        # The bins are found; LightGBM's caller would hold the sample until all rows are in them.
        sample_data.clear()
        sample_indices.clear()
        return self

    @contextmanager
    def _by_all_parameters(self) -> Iterator[None]:
        self._all_parameters = True
        try:
            yield
        finally:
            self._all_parameters = False

    def _set_init_score_by_predictor(
        self, predictor: Any, data: Any, used_indices: Any
    ) -> BlockDataset:
        if predictor is None or not isinstance(data, Blocks):
            super()._set_init_score_by_predictor(predictor, data, used_indices)
            return self
        scores = predicted(predictor.predict, data.features, raw_score=True)
        self.set_init_score(scores.ravel())
        return self


_ZERO = 1e-35  # what LightGBM takes for zero, and leaves out of the sample
_DOUBLES, _INTEGERS = ctypes.POINTER(ctypes.c_double), ctypes.POINTER(ctypes.c_int32)
