"""The conventions of the LETOR and MSLR scripts against their rules, restated position by position.

The scripts walk down a ranked list and record a figure at each of ten positions; a figure that was
never recorded adds nothing to the sum over queries, which is divided by the number of queries.
"""

from __future__ import annotations

import math

import numpy as np
import pytest

from plackett.metrics import evaluate, metric

POSITIONS = 10
GAINS = {0: 0, 1: 1, 2: 3, 3: 7, 4: 15}


def recorded_dcg(ranked):
    figures = [GAINS[ranked[0]]]
    for position in range(1, len(ranked)):
        discount = 1.0 if position < 2 else math.log(2) / math.log(position + 1)
        figures.append(figures[-1] + GAINS[ranked[position]] * discount)
    return figures


def recorded_ndcg(ranked):
    best = recorded_dcg(sorted(ranked, reverse=True))
    return [d / b if b else 0.0 for d, b in zip(recorded_dcg(ranked), best, strict=True)]


def recorded_precision(ranked, relevant, holes):
    padded = ranked + [0] * (POSITIONS - len(ranked) if holes else 0)
    hits = np.cumsum([label >= relevant for label in padded])
    return [hit / (position + 1) for position, hit in enumerate(hits)]


def average_precision(ranked, relevant):
    hits = [position for position, label in enumerate(ranked) if label >= relevant]
    parts = [(number + 1) / (position + 1) for number, position in enumerate(hits)]
    return sum(parts) / len(parts) if parts else 0.0


def script(lists, *, relevant, holes):
    """Averages over queries as a script prints them."""
    totals = dict.fromkeys([*(f"ndcg@{k}" for k in range(1, 11)), "map"], 0.0)
    totals |= dict.fromkeys([f"precision@{k}" for k in range(1, 11)], 0.0)
    for scores, labels in lists.each():
        order = sorted(range(len(labels)), key=lambda i, s=scores: -s[i])
        ranked = [int(labels[i]) for i in order]
        for position, figure in enumerate(recorded_ndcg(ranked)[:POSITIONS]):
            totals[f"ndcg@{position + 1}"] += figure
        for position, figure in enumerate(recorded_precision(ranked, relevant, holes)[:POSITIONS]):
            totals[f"precision@{position + 1}"] += figure
        totals["map"] += average_precision(ranked, relevant)
    return {name: total / len(lists.sizes) for name, total in totals.items()}


@pytest.mark.parametrize(
    ("convention", "relevant", "holes"), [("letor3", 1, False), ("letor4", 1, True), ("mslr", 2, True)]
)
def test_averages_are_those_of_the_script(lists, convention, relevant, holes):
    expected = script(lists, relevant=relevant, holes=holes)
    ours = evaluate(lists.scores, lists, [metric(name, convention) for name in expected])
    assert list(ours.values()) == pytest.approx(list(expected.values()), abs=1e-12)


def test_a_list_of_three_documents_has_no_ndcg_beyond_its_third_position():
    for convention in ("letor3", "letor4", "mslr"):
        values = [metric(f"ndcg@{k}", convention)([3, 2, 1], [2, 1, 0], [0, 3])[0] for k in range(1, 6)]
        assert values == [1.0, 1.0, 1.0, 0.0, 0.0]
