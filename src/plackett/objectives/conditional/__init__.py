"""The conditional models as objectives (Dubey et al. 2009): MLE, ExpGain, ConvexLoss, L2, L3.

Each family but MLE exists for the gains AUC, MAP and NDCG: ``ExpGainAUC`` is ``expgain-auc``. The field ``space``
selects what the sums run over: ``"cube"``, all sign vectors, in closed form (MLE and AUC only), or ``"sampled"``, a
fixed sample of rankings. The two give different values. :mod:`plackett.objectives.conditional.losses` has the formulas.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, TypeAlias

from plackett.base.errors import UsageError
from plackett.base.gains import OBJECTIVE_DISCOUNTS, ObjectiveDiscount
from plackett.base.kernels import ListFunction
from plackett.objectives.conditional import losses
from plackett.objectives.conditional.rankings import GAINS, GainName
from plackett.objectives.conditional.sampler import RestartName, SamplerSettings, WalkLength, check_settings
from plackett.objectives.driver import Weighting
from plackett.objectives.objective import Limits, ListLabels, Objective, Prepared, check_whole

RankingSpace: TypeAlias = Literal["cube", "sampled"]


@dataclass(frozen=True)
class Conditional(Objective):
    """Base of all conditional models; each loss and gain is a subclass."""

    loss: ClassVar[float]
    weighting: ClassVar[Weighting | None] = "order"
    gain: ClassVar[GainName | None] = None
    choices: ClassVar[Mapping[str, Sequence[str]]] = {"space": ("cube", "sampled")}

    space: RankingSpace = "sampled"
    """Sums over all sign vectors (``cube``: MLE and AUC only) or over ``sampled`` rankings."""
    samples: int = 200
    """Number of rankings of each list."""
    restarts: RestartName = "two"
    """Where walks start: the best or the worst ranking (``two``), or also in between (``many``)."""
    best: float = 0.9
    """Probability of the best ranking, for ``two``."""
    skew: float = -5.0
    """For ``many``: restarts with loss D are chosen in proportion to exp(skew D)."""
    walk: WalkLength = "auto"
    """Mutations after each restart, or ``"auto"``: as many as the list needs."""
    dedupe: bool = True
    """Count each ranking once."""
    seed: int = 0
    """Seed of the rankings; they do not change from step to step."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.space == "cube" and self.gain not in (None, "auc"):
            raise UsageError(f"{self.name} has no closed form; use space='sampled', not 'cube'.")
        _ = self.settings

    @property
    def settings(self) -> SamplerSettings:
        """How rankings are drawn."""
        return check_settings(self.name, self.samples, self.restarts, self.best, self.skew, self.walk, self.dedupe)

    @property
    def measure(self) -> losses.Measure:
        """The gain in the form that compiled code uses."""
        return (losses.NO_GAIN, 1, 0)

    @property
    def draw(self) -> str | None:  # type: ignore[override]
        return "rankings" if self.space == "sampled" else None

    @property
    def function(self) -> ListFunction:  # type: ignore[override]
        return losses.sampled_list if self.space == "sampled" else losses.cube_list

    @property
    def params(self) -> tuple[float, ...]:
        return (self.loss,)

    def prepare(self, lists: ListLabels) -> Prepared | None:
        if self.space == "cube":
            return None
        if "rankings" in lists.draws:
            return losses.explicit_sets(lists, self.measure)
        return losses.sample_sets(lists, seed=self.seed, settings=self.settings, measure=self.measure)

    def prepare_weighted(self, lists: ListLabels) -> Prepared:
        # The sets of rankings already contain the weights.
        return self.prepare(lists) or super().prepare_weighted(lists)


@dataclass(frozen=True)
class MLE(Conditional):
    """Minus the log-likelihood of the ideal ranking (L1); over the cube, a logistic of pairs.

    >>> MLE().evaluate([0.5, 0.1, -0.3], [0, 2, 1], [0, 3]).gradient.round(3).tolist()
    [3.044, -1.38, -1.664]
    """

    name: ClassVar[str] = "mle"
    convex: ClassVar[bool] = True
    loss: ClassVar[float] = losses.MLE_LOSS

    space: RankingSpace = "cube"


@dataclass(frozen=True)
class _ForGain(Conditional):
    limits: ClassVar[Limits] = {"cutoff": check_whole}
    choices: ClassVar[Mapping[str, Sequence[str]]] = {**Conditional.choices, "discount": OBJECTIVE_DISCOUNTS}

    cutoff: int = 10
    """Cut-off of NDCG."""
    discount: ObjectiveDiscount = "jk"
    """Of NDCG: ``jk`` leaves the first two ranks undiscounted, ``standard`` is 1/log2(1 + rank)."""

    @property
    def measure(self) -> losses.Measure:
        assert self.gain is not None
        return (GAINS.index(self.gain), self.cutoff, OBJECTIVE_DISCOUNTS.index(self.discount))


@dataclass(frozen=True)
class _ForAUC(_ForGain):
    space: RankingSpace = "cube"


def _family(title: str, loss: float, meaning: str, *, convex: bool = False) -> tuple[type[Conditional], ...]:
    """The classes of one loss for AUC, MAP and NDCG."""

    def for_gain(gain: GainName, gain_title: str) -> type[Conditional]:
        name = title + gain.upper()
        example = f">>> bool({name}().evaluate([0.5, 0.1, -0.3], [0, 0, 1], [0, 3]).gradient[2] < 0)"
        members: dict[str, Any] = {
            "__doc__": f"{meaning} {gain_title}.\n\n{example}  # its score should rise\nTrue\n",
            "__module__": __name__,
            "name": f"{title.lower()}-{gain}",
            "loss": loss,
            "convex": convex,
            "gain": gain,
        }
        return type(name, (_ForAUC if gain == "auc" else _ForGain,), members)

    return for_gain("auc", "AUC"), for_gain("map", "average precision"), for_gain("ndcg", "NDCG")


CONDITIONAL: tuple[type[Conditional], ...] = (
    MLE,
    *_family("ExpGain", losses.EXP_GAIN, "Minus the log of the expected"),
    *_family("ConvexLoss", losses.CONVEX_LOSS, "A convex bound on MLE plus the expected loss in", convex=True),
    *_family("L2", losses.L2_LOSS, "The expected loss in"),
    *_family("L3", losses.L3_LOSS, "MLE plus the expected loss in", convex=True),
)
ExpGainAUC, ExpGainMAP, ExpGainNDCG, ConvexLossAUC, ConvexLossMAP, ConvexLossNDCG = CONDITIONAL[1:7]
L2AUC, L2MAP, L2NDCG, L3AUC, L3MAP, L3NDCG = CONDITIONAL[7:]
