"""Learning curves out of a file that may be damaged."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from plackett.base.errors import DataError

_MAX_BYTES = 64 << 20


def read_curves(path: Path) -> dict[str, dict[str, list[float]]]:
    """Part to metric to values; none if the file is not there."""
    if not path.is_file():
        return {}
    if path.stat().st_size > _MAX_BYTES:
        raise DataError(f"is larger than {_MAX_BYTES >> 20} MB", path=str(path))
    try:
        found = json.loads(path.read_text(encoding="utf-8", errors="replace"))
    except (ValueError, RecursionError) as error:
        raise DataError("is not JSON", path=str(path)) from error
    if not isinstance(found, dict) or not all(_is_part(part) for part in found.values()):
        raise DataError("must hold numbers by part and metric", path=str(path))
    return found


def _is_part(part: Any) -> bool:
    return isinstance(part, dict) and all(
        isinstance(values, list) and all(isinstance(v, (int, float)) for v in values)
        for values in part.values()
    )
