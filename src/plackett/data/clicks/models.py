r"""Click models: how simulated users click.

Both models give each label a chance :math:`c_y` that an examined document is clicked; that of label
0 is noise: clicks on irrelevant documents. They differ in which documents are examined:

- :class:`PositionModel`: position k with chance :math:`k^{-\eta}`, whatever is above it (Richardson
  et al. 2007; the simulations of Joachims et al. 2017 and Ai et al. 2018).
- :class:`CascadeModel`: from the top, one after the other; after a click the user stops with a
  chance that may depend on the label (Craswell et al. 2008 stop at the first click; Guo et al. 2009
  may go on).

=========================  ========================================================================
preset                     what it is
=========================  ========================================================================
bruch2021                  cascade, first click ends, .05 .3 .5 .7 .95 (Bruch 2021, section 5.5)
hofmann2013-perfect        cascade, never stops, 0 .2 .4 .8 1 (Hofmann et al. 2013)
hofmann2013-navigational   cascade, .05 .3 .5 .7 .95, a click is the last with .2 .3 .5 .7 .9
hofmann2013-informational  cascade, .4 .6 .7 .8 .9, a click is the last with .1 .2 .3 .4 .5
joachims2017               position, eta 1, labels 3 and 4 always clicked, others with .1: binary
                           relevance (Joachims et al. 2017)
ai2018                     position, eta 1, .1 + .9 (2^y - 1)/15 (Ai et al. 2018)
=========================  ========================================================================
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from plackett.base.errors import DataError, UsageError
from plackett.base.ragged import Labels

Model = TypeVar("Model", bound="ClickModel")


def _check_chances(what: str, chances: tuple[float, ...]) -> None:
    if not chances or not all(0 <= chance <= 1 for chance in chances):
        raise UsageError(f"{what} must be chances from 0 to 1, one per label, got {chances}.")


@dataclass(frozen=True)
class ClickModel(ABC):
    """Base of click models: the chance of a click on an examined document, by label.

    Parameters
    ----------
    clicks
        Chances for the labels 0, 1, 2 ...; data may have fewer levels.
    """

    clicks: tuple[float, ...]

    def __post_init__(self) -> None:
        _check_chances("clicks", self.clicks)

    @abstractmethod
    def examination(self, n_positions: int) -> NDArray[np.float64]:
        """Chance that each position is examined; in a cascade, while the user goes on: 1."""

    @abstractmethod
    def stopping(self, labels: Labels) -> NDArray[np.float64]:
        """For each document, the chance that a click on it is the last."""

    def attraction(self, labels: Labels) -> NDArray[np.float64]:
        """For each document, the chance of a click if it is examined."""
        return _look_up(self.clicks, labels)

    def with_noise(self: Model, chance: float) -> Model:
        """Return the same model with another chance of a click on an irrelevant document."""
        return replace(self, clicks=(chance, *self.clicks[1:]))


@dataclass(frozen=True)
class PositionModel(ClickModel):
    """Position-based model: position k is examined with chance k to the power -eta.

    Parameters
    ----------
    clicks
        Chances of a click on an examined document of label 0, 1, 2 ...
    eta
        Strength of the bias; 0: every position is examined.
    """

    clicks: tuple[float, ...] = (0.1, 0.16, 0.28, 0.52, 1.0)
    eta: float = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 <= self.eta < np.inf:
            raise UsageError(f"eta must be a finite number >= 0, got {self.eta}.")

    def examination(self, n_positions: int) -> NDArray[np.float64]:
        return np.arange(1.0, n_positions + 1) ** -self.eta

    def stopping(self, labels: Labels) -> NDArray[np.float64]:
        return np.zeros(len(labels))


@dataclass(frozen=True)
class CascadeModel(ClickModel):
    """Cascade model: documents are examined from the top until a click ends it.

    Parameters
    ----------
    clicks
        Chances of a click on an examined document of label 0, 1, 2 ...
    stops
        Chances, by label, that a click is the last; None: the first click ends it.
    """

    clicks: tuple[float, ...] = (0.05, 0.3, 0.5, 0.7, 0.95)
    stops: tuple[float, ...] | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.stops is not None:
            _check_chances("stops", self.stops)
            if len(self.stops) != len(self.clicks):
                raise UsageError(
                    f"stops must be {len(self.clicks)} chances, one per label, got {self.stops}."
                )

    def examination(self, n_positions: int) -> NDArray[np.float64]:
        return np.ones(n_positions)

    def stopping(self, labels: Labels) -> NDArray[np.float64]:
        return np.ones(len(labels)) if self.stops is None else _look_up(self.stops, labels)


PRESETS: dict[str, ClickModel] = {
    "bruch2021": CascadeModel(),
    "hofmann2013-perfect": CascadeModel((0.0, 0.2, 0.4, 0.8, 1.0), (0.0,) * 5),
    "hofmann2013-navigational": CascadeModel(
        (0.05, 0.3, 0.5, 0.7, 0.95), (0.2, 0.3, 0.5, 0.7, 0.9)
    ),
    "hofmann2013-informational": CascadeModel((0.4, 0.6, 0.7, 0.8, 0.9), (0.1, 0.2, 0.3, 0.4, 0.5)),
    "joachims2017": PositionModel((0.1, 0.1, 0.1, 1.0, 1.0)),
    "ai2018": PositionModel(),
}
"""Click models of papers, for labels 0 to 4."""


def click_model(name: str | ClickModel) -> ClickModel:
    """Return a click model by the name of its preset; a model is returned as it is.

    >>> click_model("bruch2021").with_noise(0.1).clicks
    (0.1, 0.3, 0.5, 0.7, 0.95)
    """
    if isinstance(name, ClickModel):
        return name
    if name not in PRESETS:
        raise UsageError(f"there is no click model {name!r}; there are {', '.join(PRESETS)}.")
    return PRESETS[name]


def _look_up(chances: tuple[float, ...], labels: Labels) -> NDArray[np.float64]:
    """The chance of each label."""
    levels = labels.astype(np.int64)
    unknown = (levels != labels) | (levels >= len(chances))
    if unknown.any():
        raise DataError(
            f"the click model has chances for the labels 0 to {len(chances) - 1}, but the data has "
            f"{labels[unknown][0]:g}; give chances for all of them."
        )
    return np.asarray(chances, dtype=np.float64)[levels]
