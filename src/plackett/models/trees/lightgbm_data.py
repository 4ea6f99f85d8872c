r"""Our data sets as LightGBM's, without copying features.

Features on disk go through LightGBM's ``Sequence``, block by block. LightGBM draws the same sample
of rows for its bins either way, so the model is the same to the bit.

What LightGBM makes of features, block by block where they are on disk.

Whether LightGBM's bins fit in the memory that this process may still have.

LightGBM does not look whether it gets the memory it asks for: under a limit, the process ends with
a signal and no word. What it needs at least is known once the sample is drawn. It then lays out

.. math:: \frac{n\,h_j}{2} \text{ bytes}, \qquad h_j = 1 \text{ for up to 16 bins, 2 for more}

for n documents and each feature j that is dense. So much is asked for here, and given back at once:
where that fails, LightGBM would have failed. Sparse features are left out, and so is all that comes
later, so that nothing is refused that would fit.

The same bins on every machine.

Before it learns, LightGBM cuts the values of each feature into bins, by a sample of the documents.
Its data-parallel mode lets each machine find the bins of some features from its own documents, so
that bins, and with them trees, depend on how documents are shared out. Here one process draws the
sample that LightGBM would draw from all documents, finds the bins, and sends them: a few hundred
bytes per feature. Every worker then uses the bins that one process would use.

LightGBM's own functions do it; the Python package does not wrap them, so its C interface is called.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from plackett.base.errors import DataError
from plackett.base.memory import memory_limits
from plackett.data.dataset import Dataset
from plackett.data.large_arrays import allocate, is_large, iter_blocks, release_pages
from plackett.models.trees.params import BUILT_IN, feature_indices

if TYPE_CHECKING:
    from plackett.models.trees.ranker import TreeRanker


def lightgbm_data(ranker: TreeRanker, data: Dataset, reference: Any = None) -> Any:
    """A LightGBM data set.

    LightGBM limits labels to 30 and lists to 10,000 documents, for its own objectives. Ours do not
    go through it, so it is shown neither labels nor lists.
    """
    from plackett.models.trees.lightgbm_blocks import BlockDataset, Blocks  # imports lightgbm

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


def predicted(predict: Callable[..., Any], features: Any, **options: Any) -> NDArray[np.float64]:
    """What LightGBM's ``predict`` gives; documents do not see each other, so blocks are the same.

    A result of one row per document, such as contributions, is in a scratch file where the features
    are on disk and it is as large as they are.
    """
    if not is_large(features):
        return _dense(predict(features, **options))
    out: NDArray[np.float64] | None = None
    for rows in iter_blocks(features):
        found = _dense(predict(features[rows], **options))
        if out is None:
            out = allocate(features, (len(features), *found.shape[1:]), np.float64)
        out[rows] = found
        release_pages(out)
    assert out is not None  # a data set has documents
    return out


def _dense(found: Any) -> NDArray[np.float64]:
    return np.asarray(found if isinstance(found, np.ndarray) else found.toarray(), dtype=np.float64)


_HALF_BINS = 16  # LightGBM puts two of them into a byte
_LOOKED_AT = 2000  # values of a feature in the sample
_DENSE = 0.5
"""Two features that both differ from their usual value so often meet in some document, so that
LightGBM can neither bundle them nor leave the usual value out."""
_BINNING = ("max_bin", "max_bins", "max_bin_by_feature", "min_data_in_bin", "forcedbins_filename")
"""Parameters with which features of many values may have few bins."""


def check_memory_for_bins(
    sample: Sequence[NDArray[np.float64]],
    n_sampled: int,
    n_docs: int,
    params: Mapping[str, Any],
) -> None:
    """Refuse bins that this process cannot have the memory for.

    Parameters
    ----------
    sample
        For each feature, its values in the sample that are not zero.
    n_sampled, n_docs
        Documents in the sample, and in all.
    params
        LightGBM's.
    """
    found = memory_limits()
    if not found:
        return
    sizes = least_bytes(sample, n_sampled, n_docs, params)
    needed = sum(sizes)
    # The system may promise memory that a group of processes cannot have.
    if needed <= min(limit.most for limit in found) and _can_be_had(sizes):
        return
    limit = min(found, key=lambda each: each.left)
    raise DataError(
        f"LightGBM needs at least {_gigabytes(needed)} more memory, for the bins of {n_docs:,} "
        f"documents x {len(sample)} features, and cannot have it ({limit.name}: "
        f"{_gigabytes(limit.most)}, of which {_gigabytes(limit.used)} are taken). Raise the limit, "
        'take coarser bins (lightgbm={"max_bin": 15}), or train on a part of the lists.'
    )


def least_bytes(
    sample: Sequence[NDArray[np.float64]],
    n_sampled: int,
    n_docs: int,
    params: Mapping[str, Any],
) -> list[int]:
    """What the bins of each dense feature take at least."""
    coarse = any(name in params for name in _BINNING)
    halves = [_halves(values, n_sampled, coarse=coarse) for values in sample]
    return [n_docs * each // 2 for each in halves if each]


def _halves(values: NDArray[np.float64], n_sampled: int, *, coarse: bool) -> int:
    """Halves of a byte that a document takes for this feature at least."""
    if len(values) <= _DENSE * n_sampled:
        return 0
    looked_at = values[:: 1 + len(values) // _LOOKED_AT]
    _, counts = np.unique(looked_at, return_counts=True)
    if counts.max() >= _DENSE * len(looked_at):
        return 0
    return 2 if len(counts) > _HALF_BINS and not coarse else 1


def _can_be_had(sizes: Sequence[int]) -> bool:
    try:
        held = [np.empty(size, np.uint8) for size in sizes]  # promised, not touched
    except MemoryError:
        return False
    del held
    return True


def _gigabytes(n_bytes: int) -> str:
    return f"{n_bytes / 1e9:.2f} GB"


_ZERO = 1e-35  # what LightGBM takes for zero, and leaves out of the sample
_DOUBLES, _INTEGERS = ctypes.POINTER(ctypes.c_double), ctypes.POINTER(ctypes.c_int32)


def find_bins(data: Dataset, settings: dict[str, Any], categorical: list[int]) -> bytes:
    """The bins of all features, in LightGBM's own form."""
    from lightgbm.basic import _LIB, _c_str, _param_dict_to_str, _safe_call

    # Draws by all parameters, as LightGBM does from memory.
    from plackett.models.trees.lightgbm_blocks import BlockDataset  # imports lightgbm

    given = _with_categories(settings, categorical)
    drawn = BlockDataset(None, params=given)._create_sample_indices(total_nrow=data.n_docs)
    columns = [_column(sampled) for sampled in _sampled_columns(data.features, drawn)]
    values = (_DOUBLES * len(columns))(*(v.ctypes.data_as(_DOUBLES) for v, _ in columns))
    places = (_INTEGERS * len(columns))(*(p.ctypes.data_as(_INTEGERS) for _, p in columns))
    counts = np.array([len(places) for _, places in columns], dtype=np.int32)
    handle = ctypes.c_void_p()
    _safe_call(
        _LIB.LGBM_DatasetCreateFromSampledColumn(
            values,
            places,
            ctypes.c_int32(len(columns)),
            counts.ctypes.data_as(_INTEGERS),
            ctypes.c_int32(len(drawn)),
            ctypes.c_int32(1),  # rows to hold: none is needed, but none is not allowed
            ctypes.c_int64(data.n_docs),
            _c_str(_param_dict_to_str(given)),
            ctypes.byref(handle),
        )
    )
    try:
        return _serialised(handle)
    finally:
        _safe_call(_LIB.LGBM_DatasetFree(handle))


def dataset_from_bins(bins: bytes, settings: dict[str, Any], categorical: list[int]) -> Any:
    """A LightGBM data set without documents, to take bins from as a reference."""
    from lightgbm import Dataset as LightGBMDataset
    from lightgbm.basic import _LIB, _c_str, _param_dict_to_str, _safe_call

    given = _with_categories(settings, categorical)
    handle = ctypes.c_void_p()
    _safe_call(
        _LIB.LGBM_DatasetCreateFromSerializedReference(
            bins,
            ctypes.c_int32(len(bins)),
            ctypes.c_int64(1),
            ctypes.c_int32(1),
            _c_str(_param_dict_to_str(given)),
            ctypes.byref(handle),
        )
    )
    made = LightGBMDataset(None, params=given)
    made._handle = handle
    return made


def _with_categories(settings: dict[str, Any], categorical: list[int]) -> dict[str, Any]:
    plain = {name: value for name, value in settings.items() if name != "objective"}
    return plain | {"categorical_column": categorical} if categorical else plain


def _sampled_columns(features: Any, drawn: NDArray[np.int32]) -> Any:
    if isinstance(features, csr_array):
        by_column = features[drawn].tocsc()
        return (by_column[:, [j]].toarray().reshape(-1) for j in range(by_column.shape[1]))
    return np.asarray(features[drawn]).T


def _column(sampled: NDArray[Any]) -> tuple[NDArray[np.float64], NDArray[np.int32]]:
    """The values of a column that are not zero, and their places in the sample."""
    values = sampled.astype(np.float64)
    places = np.flatnonzero(~(np.abs(values) <= _ZERO))  # NaN is no zero
    return np.ascontiguousarray(values[places]), places.astype(np.int32)


def _serialised(handle: ctypes.c_void_p) -> bytes:
    from lightgbm.basic import _LIB, _safe_call

    buffer, length = ctypes.c_void_p(), ctypes.c_int32()
    _safe_call(
        _LIB.LGBM_DatasetSerializeReferenceToBinary(
            handle, ctypes.byref(buffer), ctypes.byref(length)
        )
    )
    out = (ctypes.c_uint8 * length.value)()
    try:
        for place in range(length.value):  # LightGBM hands its buffer out byte by byte
            _LIB.LGBM_ByteBufferGetAt(buffer, ctypes.c_int32(place), ctypes.byref(out, place))
    finally:
        _safe_call(_LIB.LGBM_ByteBufferFree(buffer))
    return bytes(out)
