"""The same bins on every machine.

Before it learns, LightGBM cuts the values of each feature into bins, by a sample of the documents.
Its data-parallel mode lets each machine find the bins of some features from its own documents, so
that bins, and with them trees, depend on how documents are shared out. Here one process draws the
sample that LightGBM would draw from all documents, finds the bins, and sends them: a few hundred
bytes per feature. Every worker then uses the bins that one process would use.

LightGBM's own functions do it; the Python package does not wrap them, so its C interface is called.
"""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from plackett.data.dataset import Dataset

_ZERO = 1e-35  # what LightGBM takes for zero, and leaves out of the sample
_DOUBLES, _INTEGERS = ctypes.POINTER(ctypes.c_double), ctypes.POINTER(ctypes.c_int32)


def find_bins(data: Dataset, settings: dict[str, Any], categorical: list[int]) -> bytes:
    """The bins of all features, in LightGBM's own form."""
    from lightgbm.basic import _LIB, _c_str, _param_dict_to_str, _safe_call

    # Draws by all parameters, as LightGBM does from memory.
    from plackett.models.trees.sequences import BlockDataset

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


def with_bins(bins: bytes, settings: dict[str, Any], categorical: list[int]) -> Any:
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
