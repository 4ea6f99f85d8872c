"""The conditional models as objectives (Dubey et al. 2009): MLE, ExpGain, ConvexLoss, L2, L3.

Each but MLE comes for the gains AUC, MAP and NDCG. ``space`` says what the sums run over:
``"cube"``, all sign vectors, in closed form (MLE and AUC only;
:mod:`plackett.objectives.conditional.kernels`), or ``"sampled"``, a fixed sample of rankings
(:mod:`plackett.objectives.conditional.kernels`). The two differ and do not mix.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from plackett.base.errors import UsageError
from plackett.base.kernels import ListFunction
from plackett.base.ragged import Keys, Labels, Offsets
from plackett.objectives.bound import Prepared, Weighting
from plackett.objectives.conditional.kernels import (
    CONVEX_LOSS,
    EXP_GAIN,
    L2_LOSS,
    L3_LOSS,
    MLE_LOSS,
    cube_list,
    sampled_list,
)
from plackett.objectives.conditional.rankings import DISCOUNTS, GAINS, DiscountName, GainName
from plackett.objectives.conditional.sampler import (
    NO_GAIN,
    NO_WEIGHTS,
    Measure,
    RestartName,
    SamplerSettings,
    as_settings,
    drawn_rankings,
    given_rankings,
)
from plackett.objectives.objective import Draws, Objective, check_choice, check_count

Space: TypeAlias = Literal["cube", "sampled"]


@dataclass(frozen=True)
class _Conditional(Objective):
    loss: ClassVar[float]
    weighting: ClassVar[Weighting | None] = "order"
    gain: ClassVar[GainName | None] = None

    space: Space = "sampled"
    """Sums over all sign vectors (``cube``: MLE and AUC only) or over ``sampled`` rankings."""
    samples: int = 200
    """Number of rankings of each list."""
    restarts: RestartName = "two"
    """Where walks start: the best or the worst ranking (``two``), or also in between (``many``)."""
    best: float = 0.9
    """Probability of the best ranking, for ``two``."""
    skew: float = -5.0
    """For ``many``: restarts with loss D are chosen in proportion to exp(skew D)."""
    walk: int = 10
    """Mutations after each restart."""
    dedupe: bool = True
    """Count each ranking once."""
    seed: int = 0
    """Of the rankings; with the list it determines them, at every step."""

    def __post_init__(self) -> None:
        check_choice(self.name, ("cube", "sampled"), space=self.space)
        if self.space == "cube" and self.gain not in (None, "auc"):
            raise UsageError(f"{self.name} has no closed form; use space='sampled', not 'cube'.")
        _ = self.settings

    @property
    def settings(self) -> SamplerSettings:
        """How rankings are drawn."""
        return as_settings(
            self.name,
            samples=self.samples,
            restarts=self.restarts,
            best=self.best,
            skew=self.skew,
            walk=self.walk,
            dedupe=self.dedupe,
        )

    @property
    def measure(self) -> Measure:
        """The gain as compiled code takes it."""
        return (NO_GAIN, 1, 0)

    @property
    def draw(self) -> str | None:  # type: ignore[override]
        return "rankings" if self.space == "sampled" else None

    @property
    def function(self) -> ListFunction:
        return sampled_list if self.space == "sampled" else cube_list

    @property
    def params(self) -> tuple[float, ...]:
        return (self.loss,)

    def extra(self, labels: Labels, offsets: Offsets, keys: Keys, draws: Draws) -> Prepared | None:
        return None if self.space == "cube" else self._rankings(labels, offsets, keys, draws)

    def weighted_extra(
        self,
        labels: Labels,
        offsets: Offsets,
        keys: Keys,
        draws: Draws,
        weights: NDArray[np.float64],
    ) -> Prepared:
        if self.space == "cube":
            return super().weighted_extra(labels, offsets, keys, draws, weights)
        return self._rankings(labels, offsets, keys, draws, weights)

    def _rankings(
        self,
        labels: Labels,
        offsets: Offsets,
        keys: Keys,
        draws: Draws,
        weights: NDArray[np.float64] = NO_WEIGHTS,
    ) -> Prepared:
        if "rankings" in draws:
            given = draws["rankings"]
            return given_rankings(given, labels, offsets, measure=self.measure, weights=weights)
        return drawn_rankings(
            labels,
            offsets,
            keys,
            seed=self.seed,
            settings=self.settings,
            measure=self.measure,
            weights=weights,
        )


@dataclass(frozen=True)
class _WithGain(_Conditional):
    gain: ClassVar[GainName]

    cutoff: int = 10
    """Of NDCG."""
    discount: DiscountName = "jk"
    """Of NDCG: ``jk`` leaves the first two ranks undiscounted, ``standard`` is 1/log2(1 + rank)."""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_count(self.name, cutoff=self.cutoff)
        check_choice(self.name, DISCOUNTS, discount=self.discount)

    @property
    def measure(self) -> Measure:
        return (GAINS.index(self.gain), self.cutoff, DISCOUNTS.index(self.discount))


@dataclass(frozen=True)
class MLE(_Conditional):
    """Minus the log-likelihood of the ideal ranking (L1); over the cube, a logistic of pairs."""

    name: ClassVar[str] = "mle"
    convex: ClassVar[bool] = True
    loss: ClassVar[float] = MLE_LOSS

    space: Space = "cube"


@dataclass(frozen=True)
class _ExpGain(_WithGain):
    loss: ClassVar[float] = EXP_GAIN


@dataclass(frozen=True)
class ExpGainAUC(_ExpGain):
    """Minus the log of the expected AUC."""

    name: ClassVar[str] = "expgain-auc"
    gain: ClassVar[GainName] = "auc"

    space: Space = "cube"


@dataclass(frozen=True)
class ExpGainMAP(_ExpGain):
    """Minus the log of the expected average precision."""

    name: ClassVar[str] = "expgain-map"
    gain: ClassVar[GainName] = "map"


@dataclass(frozen=True)
class ExpGainNDCG(_ExpGain):
    """Minus the log of the expected NDCG."""

    name: ClassVar[str] = "expgain-ndcg"
    gain: ClassVar[GainName] = "ndcg"


@dataclass(frozen=True)
class _ConvexLoss(_WithGain):
    convex: ClassVar[bool] = True
    loss: ClassVar[float] = CONVEX_LOSS


@dataclass(frozen=True)
class ConvexLossAUC(_ConvexLoss):
    """A convex bound on the expected loss in AUC plus MLE."""

    name: ClassVar[str] = "convexloss-auc"
    gain: ClassVar[GainName] = "auc"

    space: Space = "cube"


@dataclass(frozen=True)
class ConvexLossMAP(_ConvexLoss):
    """A convex bound on the expected loss in average precision plus MLE."""

    name: ClassVar[str] = "convexloss-map"
    gain: ClassVar[GainName] = "map"


@dataclass(frozen=True)
class ConvexLossNDCG(_ConvexLoss):
    """A convex bound on the expected loss in NDCG plus MLE."""

    name: ClassVar[str] = "convexloss-ndcg"
    gain: ClassVar[GainName] = "ndcg"


@dataclass(frozen=True)
class _L2(_WithGain):
    loss: ClassVar[float] = L2_LOSS


@dataclass(frozen=True)
class L2AUC(_L2):
    """The expected loss in AUC."""

    name: ClassVar[str] = "l2-auc"
    gain: ClassVar[GainName] = "auc"

    space: Space = "cube"


@dataclass(frozen=True)
class L2MAP(_L2):
    """The expected loss in average precision."""

    name: ClassVar[str] = "l2-map"
    gain: ClassVar[GainName] = "map"


@dataclass(frozen=True)
class L2NDCG(_L2):
    """The expected loss in NDCG."""

    name: ClassVar[str] = "l2-ndcg"
    gain: ClassVar[GainName] = "ndcg"


@dataclass(frozen=True)
class _L3(_WithGain):
    convex: ClassVar[bool] = True
    loss: ClassVar[float] = L3_LOSS


@dataclass(frozen=True)
class L3AUC(_L3):
    """MLE plus the expected loss in AUC."""

    name: ClassVar[str] = "l3-auc"
    gain: ClassVar[GainName] = "auc"

    space: Space = "cube"


@dataclass(frozen=True)
class L3MAP(_L3):
    """MLE plus the expected loss in average precision."""

    name: ClassVar[str] = "l3-map"
    gain: ClassVar[GainName] = "map"


@dataclass(frozen=True)
class L3NDCG(_L3):
    """MLE plus the expected loss in NDCG."""

    name: ClassVar[str] = "l3-ndcg"
    gain: ClassVar[GainName] = "ndcg"


CONDITIONAL: tuple[type[Objective], ...] = (
    MLE,
    ExpGainAUC,
    ExpGainMAP,
    ExpGainNDCG,
    ConvexLossAUC,
    ConvexLossMAP,
    ConvexLossNDCG,
    L2AUC,
    L2MAP,
    L2NDCG,
    L3AUC,
    L3MAP,
    L3NDCG,
)
"""All conditional models."""
