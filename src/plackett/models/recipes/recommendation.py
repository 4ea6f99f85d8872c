"""Which recipe to begin with, for data of a given size and kind.

The rules follow from the results in the documentation (docs/results): which recipe was best on small
sets, what cross-fitting added there, and what an objective costs on long lists.
"""

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from plackett.base.errors import DataError
from plackett.data.dataset import Dataset
from plackett.data.description import describe

_FEW_LISTS = 30  # below: a linear model
_SMALL = 3000  # lists; up to here cross-fitting pays for its time
_LONG = 1000  # documents of a long list: objectives over pairs take a million of them
_LARGE = 2_000_000  # documents
_MANY_GAINS = 8.0  # labels above: 2^y lets the top label decide alone


@dataclass(frozen=True)
class Recommendation:
    """What to begin with, and why."""

    recipe: str
    crossfit: int
    """Number of parts for cross-fitting; 0: a single model."""
    metric: str
    reasons: tuple[str, ...]
    cautions: tuple[str, ...]
    """What to mend or to know before training."""
    compare_with: tuple[str, ...]

    def command(self, data: str) -> str:
        """The command that trains it."""
        crossfit = f" --crossfit {self.crossfit}" if self.crossfit else ""
        return f"plackett train {data} --model {self.recipe}{crossfit} --metric {self.metric} --out model.plackett"

    def to_dict(self) -> dict[str, Any]:
        """Data for JSON."""
        return asdict(self)


def recommend(dataset: Dataset) -> Recommendation:
    """Recommend a recipe to begin with.

    Parameters
    ----------
    dataset
        The data to train on. Its sizes, labels, weights and categories are read.

    Examples
    --------
    >>> import plackett as pk
    >>> advice = recommend(pk.synthetic("letor", n_lists=100))
    >>> advice.recipe, advice.crossfit
    ('e-lambdaloss-mart', 5)
    """
    facts = describe(dataset)
    useful = facts.n_lists - facts.single_label_lists
    if useful == 0:
        raise DataError("no list has documents with different labels, so there is nothing to learn from.")
    from_clicks = dataset.document_weights is not None
    binary = facts.n_levels == 2
    reasons: list[str] = []
    others: tuple[str, ...]
    crossfit = 0
    if useful < _FEW_LISTS:
        recipe, others = "listnet-linear", ("e-lambdaloss-mart",)
        reasons.append(f"{useful} lists with different labels are too few for trees; a linear model has few weights")
    elif facts.longest > _LONG or facts.n_docs > _LARGE:
        recipe, others = "xendcg-mart", ("e-lambdaloss-mart", "lightgbm-lambdarank")
        reasons.append(
            f"the longest list has {facts.longest:,} documents and the data {facts.n_docs:,}: the cost of XE-NDCG "
            "grows with the documents of a list, that of LambdaLoss with its pairs, and their quality was level"
        )
    elif from_clicks:
        recipe, others = "xendcg-mart", ("lambdamart", "listnet-linear")
        reasons.append("labels are clicks with weights: XE-NDCG won back most of what position bias costs")
    else:
        recipe, others = "e-lambdaloss-mart", ("lightgbm-lambdarank", "xendcg-mart", "lambdamart")
        reasons.append("on OHSUMED and MQ2007 it was ahead of LightGBM and XGBoost and level with CatBoost")
    if recipe != "listnet-linear" and useful <= _SMALL:
        crossfit = 5
        reasons.append(f"with {useful:,} lists you cannot spare any for validation; cross-fitting uses all of them")
    if dataset.categories:
        reasons.append("trees split categories by sets of values; nets and linear models take a mean label instead")
    return Recommendation(
        recipe=recipe,
        crossfit=crossfit,
        metric="mrr" if binary and _one_relevant(dataset) else "ndcg@10",
        reasons=tuple(reasons),
        cautions=tuple(_cautions(dataset, facts.single_label_lists, facts.missing_share, recipe)),
        compare_with=others,
    )


def _one_relevant(dataset: Dataset) -> bool:
    """Whether most lists have a single relevant document."""
    relevant = dataset.reduce_lists(np.add, (dataset.labels > 0).astype(np.int64))
    return bool(np.mean(relevant <= 1) > 0.5)


def _cautions(dataset: Dataset, useless: int, missing_share: float, recipe: str) -> list[str]:
    cautions = []
    if useless:
        cautions.append(f"{useless:,} of {dataset.n_lists:,} lists have one label level; training skips them")
    top = float(dataset.labels.max())
    if top > _MANY_GAINS:
        cautions.append(
            f"labels go up to {top:g}, and the gain 2^y - 1 lets the highest decide alone: map them to grades 0 to 4"
        )
    if missing_share and recipe == "listnet-linear":
        cautions.append('features have missing values: --set transforms=["impute","standard"]')
    if dataset.document_weights is not None:
        cautions.append("lightgbm-lambdarank, lightgbm-xendcg and svmmap do not support the weights of clicks")
    return cautions
