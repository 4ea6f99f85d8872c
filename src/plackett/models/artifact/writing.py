"""Saving a fitted ranker."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING

from plackett.base.errors import UsageError
from plackett.base.files import atomic_directory
from plackett.models.artifact.manifest import NAME, describe, is_model

if TYPE_CHECKING:
    from plackett.models.ranker import Ranker


def write(ranker: Ranker, path: str | os.PathLike[str]) -> None:
    """Write the folder ``path``, whole or not at all; a model that is there is replaced."""
    if ranker.n_features_ is None:
        raise UsageError(f"this {type(ranker).__name__} is not fitted yet; call fit first.")
    target = check_target(path)
    with atomic_directory(target) as folder:
        ranker._write(folder)
        manifest = describe(ranker, folder)
        text = json.dumps(manifest, indent=1, allow_nan=False)
        (folder / NAME).write_text(text + "\n", encoding="utf-8")


def check_target(path: str | os.PathLike[str]) -> Path:
    """Refuse a place where a model would destroy something else."""
    target = Path(path)
    if target.is_file():
        raise UsageError(f"{target} is a file; a model is a folder, for example model.plackett.")
    if target.is_dir() and any(target.iterdir()) and not is_model(target):
        raise UsageError(f"{target} is a folder with other files; a model needs one of its own.")
    return target
