"""Where models come from: ``[name=]path`` as given on the command line.

A path is a model, or a folder of models that are all versions of one: the last by name, numbers
counted as numbers (``v9`` before ``v10``), answers unless a client asks for another.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from plackett.base.errors import DataError, UsageError
from plackett.models.artifact.save import NAME

_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,99}", re.ASCII)
_SUFFIX = ".plackett"


@dataclass(frozen=True)
class Source:
    """A name and a path that has its versions."""

    name: str
    path: Path

    def folders(self) -> list[Path]:
        """The folders of its versions, the current one last."""
        if (self.path / NAME).is_file() or not self.path.is_dir():
            return [self.path]
        # Temporary folders of a model that is being written begin with a dot.
        inside = [p for p in self.path.iterdir() if not p.name.startswith(".")]
        return sorted((p for p in inside if (p / NAME).is_file()), key=_natural)


def parse_sources(given: list[str]) -> list[Source]:
    """Sources of ``name=path`` or ``path``; the name is then that of the folder."""
    if not given:
        raise UsageError("name at least one model to serve.")
    return [_source(text) for text in given]


def _source(text: str) -> Source:
    name, sign, rest = text.partition("=")
    if not sign or Path(text).exists():
        path = Path(text)
        resolved = path.name if path.name not in ("", "..") else path.resolve().name
        name = resolved.removesuffix(_SUFFIX)
    else:
        path = Path(rest)
    if not _NAME.fullmatch(name):
        raise UsageError(
            f"{name!r} cannot be the name of a model: letters, digits, _ . and - only. Give one "
            "before the path, for example: ours=path/to/model.plackett"
        )
    if not path.exists():
        raise DataError("does not exist", path=str(path))
    return Source(name, path)


def _natural(path: Path) -> list[tuple[int, int, str]]:
    parts = re.split(r"(\d+)", path.name)
    return [(1, int(part), "") if part.isdigit() else (0, 0, part) for part in parts]
