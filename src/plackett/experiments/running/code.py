"""Which code made a result."""

from __future__ import annotations

import hashlib
from functools import cache
from pathlib import Path

import plackett
from plackett._version import __version__

_DECISIVE = ("base", "data", "metrics", "models", "objectives")
"""Packages that a trial's result depends on; reports and commands are not among them."""


@cache
def code_version() -> str:
    """The version and a digest of the sources: in a checkout, code changes between versions."""
    root = Path(plackett.__file__).parent
    digest = hashlib.sha256()
    for package in _DECISIVE:
        for file in sorted((root / package).rglob("*.py")):
            digest.update(file.relative_to(root).as_posix().encode())
            digest.update(file.read_bytes())
    return f"{__version__}+{digest.hexdigest()[:12]}"
