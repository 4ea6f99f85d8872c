"""What a recipe is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from plackett.models.ranker import Ranker

Settings = Mapping[str, Any]


@dataclass(frozen=True)
class Recipe:
    """A kind of ranker and the settings that make it a system."""

    kind: type[Ranker]
    settings: Settings
    """What differs from the defaults of the kind."""
    presets: Mapping[str, Settings] = field(default_factory=dict)
    """Settings of the papers' experiments by name, on top of ``settings``."""
