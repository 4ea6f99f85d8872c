"""Synthetic data: simulated lists in the shape of the public benchmarks.

=========  =======================================================================================
name       imitates
=========  =======================================================================================
web        MSLR-WEB30K: 136 raw, heavy-tailed web features, about 120 documents a list (1 to 1000),
           labels 0 to 4 of which half are 0, 3 % of lists without a relevant document
yahoo      Yahoo! Learning to Rank Challenge, set 1: 519 anonymous features in [0, 1], many zero,
           some constant in a list or everywhere; about 24 documents a list, labels 0 to 4
letor      MQ2007 (LETOR 4.0): 46 features scaled to [0, 1] within each list, about 40 documents a
           list, labels 0 to 2, 15 % of lists without a relevant document
binary     home-page finding (HP2003, LETOR 3.0): 64 features scaled within each list, labels 0 and
           1, one relevant document in most lists and never more than three
=========  =======================================================================================

The distributions (:mod:`plackett.data.synthetic.generators`) are fixed; the seed selects the lists drawn
from them, so two seeds give training and test data of the same problem. Relevance is not linear in the
features, depends on a hidden intent of the query, and is judged with noise.

List i of a seed does not depend on ``n_lists``. The output changes only when :data:`VERSION` is raised
(tests check its hashes).
"""

from dataclasses import dataclass

import numpy as np

from plackett.base.errors import UsageError
from plackett.base.ragged import list_of_document, offsets_from_sizes
from plackett.data.dataset import Dataset
from plackett.data.synthetic import generators
from plackett.data.synthetic.generators import STREAMS, draw_sizes, mark_best
from plackett.data.transforms.features import QueryMinMax

VERSION = 1

_LETOR = ("tf_sum", "idf", "tfidf_sum", "length", "bm25", "lm_abs", "lm_dir", "lm_jm")
_LETOR_PAGE = ("page_rank", "inlinks", "outlinks", "url_slashes", "url_length", "quality_score")
_BINARY = (*_LETOR, "tf_max", "ntf_sum", "covered_ratio", "cosine")
_BINARY_PAGE = ("page_rank", "inlinks", "url_slashes", "url_length")


def _columns(measures: tuple[str, ...], page: tuple[str, ...]) -> tuple[str, ...]:
    return (*(f"{m}_{s}" for m in measures for s in STREAMS), *page)


@dataclass(frozen=True)
class _Family:
    """Parameters of one of the data sets."""

    sizes: tuple[float, float, float, int]
    """Lengths of lists: mean and deviation of the logarithm, share of short lists, the longest."""
    judging: tuple[float, float, float, int]
    """Spread of lists, noise, share of queries without answers, intent of all queries or -1."""
    thresholds: tuple[float, ...]
    """Relevance above which the label rises, set so that labels have the shares of real data."""
    columns: tuple[str, ...] = generators.NAMES
    scaled: bool = False
    """Whether features are scaled within lists, as in LETOR."""
    best: bool = False
    """Whether the best one to three documents are relevant, instead of those above a threshold."""


FAMILIES: dict[str, _Family] = {
    "web": _Family((4.61, 0.62, 0.02, 1000), (1.1, 1.6, 0.025, -1), (-0.24, 2.19, 4.65, 5.99)),
    "yahoo": _Family((3.03, 0.55, 0.02, 150), (0.8, 0.9, 0.03, -1), (-1.30, 0.84, 2.43, 3.27)),
    "letor": _Family(
        (3.62, 0.35, 0.0, 150), (1.1, 1.3, 0.12, -1), (0.95, 3.33), columns=_columns(_LETOR, _LETOR_PAGE), scaled=True
    ),
    "binary": _Family(
        (4.2, 0.6, 0.0, 1000),
        (0.0, 0.2, 0.0, generators.NAVIGATE),
        (),
        columns=_columns(_BINARY, _BINARY_PAGE),
        scaled=True,
        best=True,
    ),
}
_MAX_LISTS = 10_000_000


def synthetic(name: str = "web", n_lists: int = 1000, *, seed: int = 0) -> Dataset:
    """Generate lists of documents in the shape of a public benchmark.

    Parameters
    ----------
    name
        "web", "yahoo", "letor" or "binary": see :mod:`plackett.data.synthetic`.
    n_lists
        Number of lists. Their query ids are 0 to ``n_lists - 1``.
    seed
        Another seed draws other lists from the same distribution.

    Examples
    --------
    >>> synthetic("letor", n_lists=10, seed=1).n_features
    46
    """
    if name not in FAMILIES:
        raise UsageError(f"unknown synthetic data {name!r}; expected one of {', '.join(FAMILIES)}.")
    for what, number in (("n_lists", n_lists), ("seed", seed)):
        if isinstance(number, bool) or not isinstance(number, (int, np.integer)):
            raise UsageError(f"{what} must be an integer, got {number!r}.")
    if not 1 <= n_lists <= _MAX_LISTS:
        raise UsageError(f"n_lists must be from 1 to {_MAX_LISTS}, got {n_lists}.")
    if not 0 <= seed < 2**63:
        raise UsageError(f"seed must be from 0 to 2**63 - 1, got {seed}.")
    family = FAMILIES[name]
    sizes = np.empty(n_lists, np.int64)
    draw_sizes(seed, *family.sizes, sizes)
    offsets = offsets_from_sizes(sizes)
    relevance = np.empty(offsets[-1])
    if name == "yahoo":
        world = generators.draw_world()
        names = generators.feature_names(world)
        features = np.empty((offsets[-1], len(names)), np.float32)
        generators.factor_lists(seed, offsets, family.judging, world, features, relevance)
    else:
        names = family.columns
        features = np.empty((offsets[-1], len(generators.NAMES)), np.float32)
        generators.page_lists(seed, offsets, family.judging, features, relevance)
        if names != generators.NAMES:
            features = np.ascontiguousarray(features[:, [generators.NAMES.index(column) for column in names]])
        if family.scaled:
            features = QueryMinMax().apply(features, offsets)
    labels = np.searchsorted(np.array(family.thresholds), relevance).astype(np.float32)
    if family.best:
        mark_best(seed, relevance, offsets, labels)
    return Dataset.from_arrays(features, labels, list_of_document(offsets), feature_names=names)
