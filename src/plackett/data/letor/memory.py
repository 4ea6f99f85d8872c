"""How much memory there is, so that a wild feature index is an error and not a dead process."""

from __future__ import annotations

import re
from pathlib import Path

_UNKNOWN = 1 << 40
_KIB = 1024


def available_memory(meminfo: str = "/proc/meminfo") -> int:
    """Bytes that can be had without swapping; a terabyte where the system does not say."""
    try:
        text = Path(meminfo).read_text(encoding="ascii")
    except OSError:
        return _UNKNOWN
    found = re.search(r"^MemAvailable:\s+(\d+) kB", text, re.MULTILINE)
    return _UNKNOWN if found is None else int(found.group(1)) * _KIB


def spelled(size: float) -> str:
    """Return a number of bytes as people say it.

    >>> spelled(3 * 1024**3)
    '3.0 GiB'
    """
    for unit in ("B", "KiB", "MiB", "GiB", "TiB"):
        if size < _KIB:
            return f"{size:.1f} {unit}"
        size /= _KIB
    return f"{size:.1f} PiB"
