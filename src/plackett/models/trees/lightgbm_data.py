r"""Conversion of data sets to LightGBM's, without copying the features; several processes can share the bins.

Features on disk go through LightGBM's ``Sequence``, block by block; the model is the same to the bit.

**Memory.** LightGBM does not check whether its allocations succeed: under a memory limit, a signal ends the process
without a message. After drawing the sample it allocates

.. math:: \frac{n\,h_j}{2} \text{ bytes}, \qquad h_j = 1 \text{ for up to 16 bins, 2 for more}

for n documents and each dense feature j; :func:`check_memory_for_bins` tries to allocate as much and frees it at once.

**Bins.** LightGBM's data-parallel mode lets each machine find the bins of some features from its own documents, so
trees would depend on the partition. Instead one process finds the bins from the sample that LightGBM would draw from
all documents, and sends them to the workers. LightGBM's Python package does not wrap these functions, so we call its C
interface. The members of a cross-fit learn from parts of the same lists, which are binned once.

This module imports LightGBM; the others of this package import it only where they need it.
"""

from __future__ import annotations

import ctypes
import weakref
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import lightgbm
import numpy as np
from lightgbm.basic import _LIB, _c_str, _param_dict_to_str, _safe_call
from numpy.typing import NDArray

from plackett.base.errors import DataError
from plackett.base.memory import memory_limits
from plackett.base.ragged import Features
from plackett.data import Dataset
from plackett.data.canonical import PermutedRows, dense_columns
from plackett.data.large_arrays import is_large, release_pages, rows_per_block
from plackett.models.trees.params import BUILT_IN, categorical_indices
from plackett.models.trees.training import predict_in_blocks

if TYPE_CHECKING:
    from plackett.models.fit_context import WholeData
    from plackett.models.trees.ranker import TreeRanker


def make_lightgbm_datasets(
    ranker: TreeRanker, parts: Mapping[str, Dataset], settings: Mapping[str, Any], bins: Any = None
) -> dict[str, Any]:
    """LightGBM datasets of the training and validation lists, with the bins of ``bins`` if given."""
    whole = ranker.whole
    # LightGBM's own objectives need lists and weights.
    if whole is not None and ranker.objective not in BUILT_IN and not ranker.transforms:
        params = {name: value for name, value in settings.items() if name != "objective"}
        shared = _bin_once(ranker, whole.data, params)
        if not isinstance(shared, bytes):
            return {name: PartDataset(shared, whole, name, part, params) for name, part in parts.items()}
        bins = dataset_from_bins(shared, params, categorical_indices(ranker))
    train = make_lightgbm_dataset(ranker, parts["train"], bins)
    others = {n: make_lightgbm_dataset(ranker, part, train) for n, part in parts.items() if n != "train"}
    return {"train": train, **others}


_FOR_TREES = ("seed", "learning_rate", "num_leaves", "feature_fraction")
"""Parameters that differ between members or candidates and do not affect bins."""
_last_binned: list[tuple[Any, dict[str, Any], BlockDataset | bytes]] = []  # at most one


def _bin_once(ranker: TreeRanker, data: Dataset, params: dict[str, Any]) -> BlockDataset | bytes:
    """Convert data to LightGBM's form, cached while they exist; for data on disk only the bins, to save memory."""
    params = {n: v for n, v in params.items() if n not in _FOR_TREES}
    categorical = categorical_indices(ranker)
    key = params | {"categorical": categorical, "num_threads": None}
    for known, settings, binned in _last_binned:
        if known() is data and settings == key:
            return binned
    _last_binned.clear()
    canonical = ranker._number_categories(data).canonical(copy=False)
    result: BlockDataset | bytes
    if is_large(data.features):
        result = find_bins(canonical, params, categorical)
    else:
        result = make_lightgbm_dataset(ranker, canonical)
        result.params = params
        result.construct()
    _last_binned.append((weakref.ref(data, lambda _: _last_binned.clear()), key, result))
    return result


def make_lightgbm_dataset(ranker: TreeRanker, data: Dataset, reference: Any = None) -> BlockDataset:
    """A LightGBM dataset with the bins of ``reference``; labels and lists, which LightGBM limits, only if needed."""
    built_in = ranker.objective in BUILT_IN
    weights = None
    if data.weights is not None and built_in:
        weights = np.repeat(data.weights, np.diff(data.offsets))
    names, features = ranker.feature_names_, data.features
    return BlockDataset(
        Blocks(features) if isinstance(features, PermutedRows) or is_large(features) else features,
        data.labels if built_in else np.zeros(data.n_docs, np.float32),
        group=np.diff(data.offsets) if built_in else None,
        weight=weights,
        reference=reference,
        # LightGBM rejects some characters in names; the ranker keeps the real ones.
        feature_name=[f"f{j}" for j in range(data.n_features)] if names else "auto",
        categorical_feature=categorical_indices(ranker),
        free_raw_data=False,
    )


class Blocks(lightgbm.Sequence):  # type: ignore[misc]
    """Rows in another order or on disk; LightGBM reads sampled rows first, then blocks."""

    def __init__(self, features: Features | PermutedRows) -> None:
        self.features = features
        self.batch_size = rows_per_block(4 * features.shape[1])
        self._matrix = features.matrix if isinstance(features, PermutedRows) else features

    def __len__(self) -> int:
        return len(self.features)

    def __getitem__(self, index: Any) -> NDArray[Any]:
        block = self.features[index]
        if isinstance(index, slice) and not isinstance(self.features, PermutedRows):
            block = block.copy()
        release_pages(self._matrix)
        return block

    def sample(self, rows: NDArray[np.int32]) -> NDArray[np.float32]:
        """Rows in ascending order."""
        out = np.empty((len(rows), self.features.shape[1]), np.float32)
        for start in range(0, len(rows), self.batch_size):
            stop = start + self.batch_size
            out[start:stop] = self[rows[start:stop]]
        return out


class BlockDataset(lightgbm.Dataset):  # type: ignore[misc]
    """LightGBM's dataset; also for a ``Sequence``, it supports all parameters and continuing from a model."""

    _all_parameters = False

    def get_params(self) -> dict[str, Any]:
        """The parameters that are passed to LightGBM."""
        if self._all_parameters and self.params is not None:
            return dict(self.params)
        return dict(super().get_params())

    def _create_sample_indices(self, *, total_nrow: int) -> NDArray[np.int32]:
        with self._use_all_parameters():
            return np.asarray(super()._create_sample_indices(total_nrow=total_nrow))

    def _Dataset__sample(  # noqa: N802 - a private method of LightGBM
        self, *, seqs: list[Blocks], total_nrow: int
    ) -> tuple[list[NDArray[np.float64]], list[NDArray[np.int32]]]:
        # LightGBM would read the rows of the sample one by one, in Python.
        (blocks,) = seqs
        rows = self._create_sample_indices(total_nrow=total_nrow)
        sample = [_nonzero(column) for column in blocks.sample(rows).T]
        return [values for values, _ in sample], [places for _, places in sample]

    def _init_from_sample(
        self, sample_data: list[NDArray[Any]], sample_indices: list[NDArray[Any]], sample_cnt: int, total_nrow: int
    ) -> BlockDataset:
        check_memory_for_bins(sample_data, sample_cnt, total_nrow, self.params or {})
        with self._use_all_parameters():
            super()._init_from_sample(sample_data, sample_indices, sample_cnt, total_nrow)
        # LightGBM's caller would keep the sample in memory until all rows are binned.
        sample_data.clear()
        sample_indices.clear()
        return self

    @contextmanager
    def _use_all_parameters(self) -> Iterator[None]:
        self._all_parameters = True
        try:
            yield
        finally:
            self._all_parameters = False

    def _set_init_score_by_predictor(self, predictor: Any, data: Any, used_indices: Any) -> BlockDataset:
        if predictor is None or not isinstance(data, Blocks):
            super()._set_init_score_by_predictor(predictor, data, used_indices)
        else:
            self.set_init_score(predict_in_blocks(predictor.predict, data.features, raw_score=True).ravel())
        return self


class PartDataset(lightgbm.Dataset):  # type: ignore[misc]
    """Some documents of a binned dataset."""

    def __init__(
        self, binned: BlockDataset, whole: WholeData, name: str, part: Dataset, params: dict[str, Any]
    ) -> None:
        super().__init__(None, reference=binned, params=dict(binned.params), free_raw_data=True)
        order = whole.data.order
        chosen = whole.lists[name][order.lists]
        assert np.array_equal(order.keys[chosen], part.keys)
        self.used_indices = np.flatnonzero(np.repeat(chosen, np.diff(order.offsets)))
        self.features = part.features
        self.construct()
        self.params = params  # so that LightGBM does not take the members' own for a change of bins

    def _set_init_score_by_predictor(self, predictor: Any, **_: Any) -> PartDataset:
        if predictor is not None:
            self.set_init_score(predict_in_blocks(predictor.predict, self.features, raw_score=True).ravel())
        return self


_HALF_BYTE_BINS = 16  # with up to this many bins, LightGBM stores two values per byte
_INSPECTED = 2000  # values of a feature in the sample
_DENSE = 0.5
"""A feature that differs from its most frequent value in more than this share of the documents:
LightGBM can neither bundle two such features nor leave the frequent value out."""
_BINNING = ("max_bin", "max_bins", "max_bin_by_feature", "min_data_in_bin", "forcedbins_filename")
"""Parameters that may give features with many values few bins."""


def check_memory_for_bins(
    sample: Sequence[NDArray[np.float64]], n_sampled: int, n_docs: int, params: Mapping[str, Any]
) -> None:
    """Raise DataError if a memory limit leaves too little for the bins; ``sample`` has nonzero values by feature."""
    limits = memory_limits()
    sizes = min_bin_bytes(sample, n_sampled, n_docs, params) if limits else []
    needed = sum(sizes)
    # The system may grant memory beyond the limit of a control group.
    if all(needed <= limit.most for limit in limits) and _can_allocate(sizes):
        return
    limit = min(limits, key=lambda limit: limit.left)
    raise DataError(
        f"LightGBM needs at least {needed / 1e9:.2f} GB more memory, for the bins of {n_docs:,} "
        f"documents x {len(sample)} features, which is not available ({limit.name}: "
        f"{limit.most / 1e9:.2f} GB, of which {limit.used / 1e9:.2f} GB are in use). Raise the "
        'limit, use coarser bins (lightgbm={"max_bin": 15}), or train on a part of the lists.'
    )


def min_bin_bytes(
    sample: Sequence[NDArray[np.float64]], n_sampled: int, n_docs: int, params: Mapping[str, Any]
) -> list[int]:
    """A lower bound on the memory for the bins of each dense feature."""
    coarse = any(name in params for name in _BINNING)
    half_bytes = [_half_bytes(values, n_sampled, coarse=coarse) for values in sample]
    return [n_docs * count // 2 for count in half_bytes if count]


def _half_bytes(values: NDArray[np.float64], n_sampled: int, *, coarse: bool) -> int:
    """Minimum number of half bytes per document for this feature."""
    if len(values) <= _DENSE * n_sampled:
        return 0
    inspected = values[:: 1 + len(values) // _INSPECTED]
    _, counts = np.unique(inspected, return_counts=True)
    if counts.max() >= _DENSE * len(inspected):
        return 0
    return 2 if len(counts) > _HALF_BYTE_BINS and not coarse else 1


def _can_allocate(sizes: Sequence[int]) -> bool:
    try:
        _ = [np.empty(size, np.uint8) for size in sizes]  # reserved, never written
    except MemoryError:
        return False
    return True


_ZERO = 1e-35  # LightGBM treats smaller values as zero and leaves them out of the sample
_DOUBLES, _INTEGERS = ctypes.POINTER(ctypes.c_double), ctypes.POINTER(ctypes.c_int32)


def find_bins(data: Dataset, settings: dict[str, Any], categorical: list[int]) -> bytes:
    """The bins of all features, in LightGBM's serialized form."""
    params = _bin_params(settings, categorical)
    rows = BlockDataset(None, params=params)._create_sample_indices(total_nrow=data.n_docs)
    sample = [_nonzero(column) for column in dense_columns(data.features[rows])]
    values = (_DOUBLES * len(sample))(*(v.ctypes.data_as(_DOUBLES) for v, _ in sample))
    places = (_INTEGERS * len(sample))(*(p.ctypes.data_as(_INTEGERS) for _, p in sample))
    counts = np.array([len(places) for _, places in sample], dtype=np.int32)
    handle = ctypes.c_void_p()
    _safe_call(
        _LIB.LGBM_DatasetCreateFromSampledColumn(
            values,
            places,
            ctypes.c_int32(len(sample)),
            counts.ctypes.data_as(_INTEGERS),
            ctypes.c_int32(len(rows)),
            ctypes.c_int32(1),  # rows to hold: we need none, but LightGBM requires one
            ctypes.c_int64(data.n_docs),
            _c_str(_param_dict_to_str(params)),
            ctypes.byref(handle),
        )
    )
    try:
        return _serialize(handle)
    finally:
        _safe_call(_LIB.LGBM_DatasetFree(handle))


def dataset_from_bins(bins: bytes, settings: dict[str, Any], categorical: list[int]) -> Any:
    """A LightGBM dataset without documents that serves as a reference for bins."""
    params = _bin_params(settings, categorical)
    handle = ctypes.c_void_p()
    _safe_call(
        _LIB.LGBM_DatasetCreateFromSerializedReference(
            bins,
            ctypes.c_int32(len(bins)),
            ctypes.c_int64(1),
            ctypes.c_int32(1),
            _c_str(_param_dict_to_str(params)),
            ctypes.byref(handle),
        )
    )
    dataset = lightgbm.Dataset(None, params=params)
    dataset._handle = handle
    return dataset


def _bin_params(settings: dict[str, Any], categorical: list[int]) -> dict[str, Any]:
    params = {name: value for name, value in settings.items() if name != "objective"}
    return params | {"categorical_column": categorical} if categorical else params


def _nonzero(column: NDArray[Any]) -> tuple[NDArray[np.float64], NDArray[np.int32]]:
    """The nonzero values of a column, and their positions in the sample."""
    values = column.astype(np.float64)
    places = np.flatnonzero(~(np.abs(values) <= _ZERO))  # NaN is not zero
    return np.ascontiguousarray(values[places]), places.astype(np.int32)


def _serialize(handle: ctypes.c_void_p) -> bytes:
    buffer, length = ctypes.c_void_p(), ctypes.c_int32()
    _safe_call(_LIB.LGBM_DatasetSerializeReferenceToBinary(handle, ctypes.byref(buffer), ctypes.byref(length)))
    out = (ctypes.c_uint8 * length.value)()
    try:
        for place in range(length.value):  # LightGBM gives its buffer byte by byte only
            _LIB.LGBM_ByteBufferGetAt(buffer, ctypes.c_int32(place), ctypes.byref(out, place))
    finally:
        _safe_call(_LIB.LGBM_ByteBufferFree(buffer))
    return bytes(out)
