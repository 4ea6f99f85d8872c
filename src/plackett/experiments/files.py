"""What experiments leave in a folder: texts that appear whole, and JSON without NaN."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from plackett.base.files import atomic_file


def write_text(path: Path, text: str) -> None:
    """Write a text; it appears whole or not at all."""
    with atomic_file(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


def as_json(value: Any) -> str:
    """Indented JSON; NaN, for which JSON has no word, is null."""
    return json.dumps(_plain(value), indent=1, ensure_ascii=False)


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(key): _plain(each) for key, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(each) for each in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
