"""Rules of ties, held against the enumeration of all orders of tied documents."""

from __future__ import annotations

import math
from itertools import groupby, permutations, product

import numpy as np
import pytest

from plackett.base.errors import DataError, UsageError
from plackett.metrics import metric

pytestmark = pytest.mark.kernels


def in_order(name, ranked, labels, cutoff, **options):
    """A metric of a list in a given order, straight from its definition."""
    top = ranked[:cutoff]
    relevant = sum(label > 0 for label in labels)
    hits = [label > 0 for label in top]
    if name in ("dcg", "ndcg"):
        gain = sum((2**y - 1) / math.log2(r + 2) for r, y in enumerate(top))
        best = sorted(labels, reverse=True)[:cutoff]
        ideal = sum((2**y - 1) / math.log2(r + 2) for r, y in enumerate(best))
        return gain if name == "dcg" else gain / ideal
    if name == "err":
        chances = [(2**y - 1) / 2 ** options.get("grade", max(labels)) for y in top]
        passed = [math.prod(1 - c for c in chances[:r]) for r in range(len(chances))]
        return sum(p * c / (r + 1) for r, (p, c) in enumerate(zip(passed, chances, strict=True)))
    if name == "map":
        total = sum(sum(hits[: r + 1]) / (r + 1) for r, hit in enumerate(hits) if hit)
        capped = options.get("denominator") == "cutoff" and cutoff is not None
        return total / (min(relevant, cutoff) if capped else relevant)
    if name == "mrr":
        return next((1 / (r + 1) for r, hit in enumerate(hits) if hit), 0.0)
    if name == "precision":
        return sum(hits) / (cutoff or len(labels))
    if name == "recall":
        return sum(hits) / relevant
    if name == "success":
        return float(any(hits))
    return 0.2 * sum(0.8**r for r, hit in enumerate(hits) if hit)  # rbp


def orders(scores, labels):
    """All orders of the retrieved labels in which a better score comes first."""
    falling = sorted((s for s in zip(scores, labels, strict=True) if s[0] > -math.inf), reverse=True)
    groups = [[label for _, label in group] for _, group in groupby(falling, key=lambda d: d[0])]
    for choice in product(*(permutations(group) for group in groups)):
        yield [label for group in choice for label in group]


LISTS = [
    ([1, 1, 1, 1], [0, 2, 1, 0]),
    ([2, 1, 1, 1, 0], [1, 0, 2, 2, 1]),
    ([2, 2, 1, 1, 1, 0], [0, 1, 0, 3, 0, 2]),
    ([1, 1, 1, 1, 1, 1], [0, 0, 0, 0, 0, 1]),
    ([3, 3, 3, 2, 2, 2, 1], [0, 0, 0, 2, 1, 0, 4]),
    ([1, 1, 1], [2, 2, 2]),
    ([1, 1, 0, -math.inf, -math.inf], [0, 1, 2, 3, 0]),
    ([1], [1]),
]
METRICS = [
    ("ndcg", {}),
    ("dcg", {}),
    ("err", {}),
    ("err", {"grade": 4}),
    ("map", {}),
    ("map", {"denominator": "cutoff"}),
    ("mrr", {}),
    ("precision", {}),
    ("recall", {}),
    ("success", {}),
    ("rbp", {}),
]


def spelled(name, cutoff):
    return name if cutoff is None else f"{name}@{cutoff}"


@pytest.mark.parametrize("cutoff", [None, 1, 2, 3, 4, 6])
@pytest.mark.parametrize(("name", "options"), METRICS)
def test_expected_is_the_mean_over_all_orders_of_tied_documents(name, options, cutoff):
    m = metric(spelled(name, cutoff), ties="expected", **options)
    for scores, labels in LISTS:
        values = [in_order(name, o, labels, cutoff, **options) for o in orders(scores, labels)]
        value = m(scores, labels, [0, len(labels)])[0]
        assert value == pytest.approx(np.mean(values), abs=1e-12)


@pytest.mark.parametrize("cutoff", [None, 1, 2, 3, 4, 6])
@pytest.mark.parametrize(("name", "options"), METRICS)
def test_pessimistic_and_optimistic_are_the_extremes_over_all_orders(name, options, cutoff):
    low = metric(spelled(name, cutoff), ties="pessimistic", **options)
    high = metric(spelled(name, cutoff), ties="optimistic", **options)
    for scores, labels in LISTS:
        values = [in_order(name, o, labels, cutoff, **options) for o in orders(scores, labels)]
        bounds = [m(scores, labels, [0, len(labels)])[0] for m in (low, high)]
        assert bounds == pytest.approx([min(values), max(values)], abs=1e-12)


@pytest.mark.parametrize("cutoff", [None, 1, 3, 40])
@pytest.mark.parametrize(("name", "options"), METRICS)
def test_stable_keeps_the_order_in_which_documents_come(name, options, cutoff, lists):
    m = metric(spelled(name, cutoff), **options)
    values = m(lists.scores, lists.labels, lists.offsets)
    for value, (scores, labels) in zip(values, lists.each(), strict=True):
        if labels.max() > 0:
            ranked = [float(labels[i]) for i in sorted(range(len(labels)), key=lambda i: -scores[i])]
            expected = in_order(name, ranked, labels.tolist(), cutoff, **options)
            assert value == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("ties", ["stable", "expected", "pessimistic", "optimistic", "random"])
def test_auc_counts_a_tied_pair_as_one_half_under_every_rule(ties):
    value = metric("auc", ties=ties)([1, 1, 0], [1, 0, 0], [0, 3])[0]
    assert value == 0.75


def test_auc_puts_documents_that_were_not_retrieved_below_all_others():
    nothing = -math.inf
    assert metric("auc")([nothing, 0.0, nothing], [1, 0, 0], [0, 3])[0] == 0.25


@pytest.mark.parametrize("pairs", ["binary", "graded"])
def test_auc_is_the_share_of_pairs_in_order(pairs, lists):
    values = metric("auc", pairs=pairs)(lists.scores, lists.labels, lists.offsets)
    for value, (scores, labels) in zip(values, lists.each(), strict=True):
        y = labels > 0 if pairs == "binary" else labels
        won = [0.5 + 0.5 * np.sign(scores[i] - scores[j]) for i, j in permutations(range(len(y)), 2) if y[i] > y[j]]
        assert value == pytest.approx(np.mean(won) if won else np.nan, nan_ok=True, abs=1e-12)


def test_all_rules_agree_where_no_scores_are_equal():
    rng = np.random.default_rng(0)
    scores, labels = rng.permutation(50.0 * np.arange(50)), rng.integers(0, 5, 50)
    for name, options in METRICS:
        values = [
            metric(spelled(name, 7), ties=ties, **options)(scores, labels, [0, 50], np.arange(50))
            for ties in ("stable", "expected", "pessimistic", "optimistic", "random", "docid")
        ]
        assert np.concatenate(values) == pytest.approx(np.repeat(values[0], 6), abs=1e-14)


def test_random_order_is_uniform_over_seeds():
    m = [metric("precision@1", ties="random", seed=seed) for seed in range(400)]
    means = np.mean([one([0, 0, 0, 0], [1, 0, 0, 0], [0, 4])[0] for one in m])
    assert abs(means - 0.25) < 4 * math.sqrt(0.25 * 0.75 / 400)


def test_random_order_depends_on_the_lists_key_and_not_on_its_position():
    m = metric("ndcg@3", ties="random", seed=7)
    rng = np.random.default_rng(1)
    labels = rng.integers(0, 3, 400)
    labels[::8] = 2  # every list has a relevant document
    scores, offsets = np.zeros(400), np.arange(0, 401, 8)
    keys = rng.integers(0, 2**63, 50).astype(np.uint64)
    values = m(scores, labels, offsets, keys=keys)
    turned = m(scores, labels.reshape(50, 8)[::-1].ravel(), offsets, keys=keys[::-1])
    assert np.array_equal(values, turned[::-1])
    assert not np.array_equal(values, m(scores, labels, offsets, keys=keys + np.uint64(1)))


def test_order_by_document_id_needs_document_ids():
    with pytest.raises(DataError, match="no document ids"):
        metric("ndcg:trec_eval")([1.0], [1], [0, 1])


def test_expected_average_precision_over_the_documents_found_is_not_defined():
    with pytest.raises(UsageError, match="denominator=relevant or cutoff"):
        metric("map@3", ties="expected", denominator="found")


def test_average_precision_can_be_divided_by_the_relevant_documents_found():
    value = metric("map@2", denominator="found")([4, 3, 2, 1], [0, 1, 1, 1], [0, 4])[0]
    assert value == 0.5
