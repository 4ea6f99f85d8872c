"""What determines the result of a trial, and the name that follows from it.

Two trials with the same identity give the same result, so one of them need not be run. Whatever
changes a result is in it: the data, the system with all its settings, the seed, the part of the
protocol, what the model was chosen by, and the code. Whatever does not is left out: the number of
threads, the machine, the folder, the metrics that are computed from the scores afterwards.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from functools import cached_property
from typing import Any


@dataclass(frozen=True)
class Identity:
    """What determines the result of a trial; all of it can be written as JSON."""

    data: str
    """Fingerprint of the data that the protocol divides."""
    system: str
    """Name of the system, for people; its settings are what counts."""
    settings: Mapping[str, Any]
    """Kind and all parameters of the ranker."""
    seed: int
    part: str
    """Which part of which protocol, in words that determine it."""
    metric: str
    """What the model is chosen by."""
    code: str
    """Version of the code that was run."""
    libraries: Mapping[str, str] = field(default_factory=dict)
    """Versions of the libraries that the ranker stands on."""

    @cached_property
    def digest(self) -> str:
        """64 hexadecimal digits; the same in every process and on every machine."""
        # The name of a system is for people: renamed, it is still the same system.
        decisive = {key: value for key, value in self.to_dict().items() if key != "system"}
        text = json.dumps(decisive, sort_keys=True, separators=(",", ":"), allow_nan=False)
        return hashlib.sha256(text.encode()).hexdigest()

    def to_dict(self) -> dict[str, Any]:
        """Plain data, for JSON."""
        return asdict(self)
