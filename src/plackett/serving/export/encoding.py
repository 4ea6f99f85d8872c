"""Plain data with arrays in it, as JSON and as UBJSON (draft 12, as XGBoost writes it)."""

from __future__ import annotations

import json
from typing import Any

import numpy as np

# Types that XGBoost gives to arrays, with their markers; numbers have the high byte first.
_MARKERS: dict[str, tuple[bytes, str]] = {
    "float32": (b"d", ">f4"),
    "int32": (b"l", ">i4"),
    "int64": (b"L", ">i8"),
    "uint8": (b"U", ">u1"),
}


def to_json(data: Any) -> str:
    """JSON; a float32 is written as the float64 that equals it, which every reader gives back."""
    return json.dumps(data, default=_plain, allow_nan=False)


def to_ubjson(data: Any) -> bytes:
    """UBJSON; arrays of numbers have a type."""
    out = bytearray()
    _encode(data, out)
    return bytes(out)


def _plain(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return value.tolist()
    raise TypeError(f"{type(value).__name__} is not plain data")


def _encode(value: Any, out: bytearray) -> None:
    if isinstance(value, dict):
        out += b"{"
        for key, each in value.items():
            _text(key, out)
            _encode(each, out)
        out += b"}"
    elif isinstance(value, np.ndarray):
        marker, dtype = _MARKERS[value.dtype.name]
        out += b"[$" + marker + b"#" + _length(len(value)) + value.astype(dtype).tobytes()
    elif isinstance(value, list):
        out += b"[#" + _length(len(value))
        for each in value:
            _encode(each, out)
    elif isinstance(value, str):
        out += b"S"
        _text(value, out)
    else:
        out += _length(int(value))


def _text(text: str, out: bytearray) -> None:
    raw = text.encode()
    out += _length(len(raw)) + raw


def _length(size: int) -> bytes:
    return b"L" + size.to_bytes(8, "big", signed=True)
