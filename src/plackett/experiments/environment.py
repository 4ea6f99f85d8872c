"""What a result was made with, so that it can be made again."""

from __future__ import annotations

import os
import platform
from collections.abc import Iterable

from plackett.experiments.running.code import code_version
from plackett.experiments.running.system import version

_ALWAYS = ("numpy", "scipy", "numba")


def environment(libraries: Iterable[str] = ()) -> dict[str, str]:
    """Versions of the code and its libraries, and the kind of machine."""
    names = sorted({*_ALWAYS, *libraries})
    return {
        "plackett": code_version(),
        "Python": platform.python_version(),
        **{name: version(name) for name in names},
        "system": f"{platform.system()} {platform.machine()}",
        "cores": str(os.cpu_count()),
    }
