"""Neural nets that correct each other: uBoost and urBoost."""

from __future__ import annotations

from dataclasses import dataclass

from plackett.base.errors import UsageError
from plackett.models.neural.net import Net


@dataclass
class BoostedNeuralRanker(Net):
    """A neural net and further nets, each fitted to the negative gradient of the ones before.

    uBoost, and with ``recurrent`` urBoost, of Zhu & Klabjan (2020). All other parameters are those
    of :class:`NeuralRanker`; they hold for each of the nets.

    Parameters
    ----------
    learners
        Nets at most. With validation data, a net that does not improve the metric is left out
        and is the last.
    shrinkage
        What the scores of the nets after the first are multiplied with.
    """

    learners: int = 5
    shrinkage: float = 1.0

    @property
    def _learners(self) -> int:
        if type(self.learners) is not int or self.learners < 1:
            raise UsageError(f"learners must be a positive whole number, got {self.learners!r}.")
        return self.learners

    @property
    def _shrinkage(self) -> float:
        if type(self.shrinkage) not in (int, float) or not 0 < self.shrinkage < float("inf"):
            raise UsageError(f"shrinkage must be a positive number, got {self.shrinkage!r}.")
        return self.shrinkage
