"""Values worked out by hand, published, or known from the definition."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest

from plackett.base.errors import DataError
from plackett.metrics import metric

pytestmark = pytest.mark.kernels

LOG2 = math.log2
ONE = [0, 4]
SCORES = [4.0, 3.0, 2.0, 1.0]
LABELS = [1, 0, 2, 3]


@pytest.mark.parametrize(
    ("spelling", "expected"),
    [
        ("dcg", 1 + 3 / LOG2(4) + 7 / LOG2(5)),
        ("dcg@3", 1 + 3 / LOG2(4)),
        ("dcg@3:gain=identity", 1 + 2 / LOG2(4)),
        ("dcg:discount=letor", 1 + 3 / LOG2(3) + 7 / LOG2(4)),
        ("dcg:discount=reciprocal", 1 + 3 / 3 + 7 / 4),
        ("ndcg@2", 1 / (7 + 3 / LOG2(3))),
        ("ndcg@2:gain=identity", 1 / (3 + 2 / LOG2(3))),
        ("ndcg@9", (1 + 3 / 2 + 7 / LOG2(5)) / (7 + 3 / LOG2(3) + 1 / 2)),
        ("ndcg@9:short=zero", 0),
        ("err@1", 1 / 8),
        ("err@3", 1 / 8 + (7 / 8) * (3 / 8) / 3),
        ("err@3:grade=4", 1 / 16 + (15 / 16) * (3 / 16) / 3),
        ("err@3:gain=identity", 1 / 3 + (2 / 3) * (2 / 3) / 3),
        ("map", (1 + 2 / 3 + 3 / 4) / 3),
        ("map@3", (1 + 2 / 3) / 3),
        ("map@2:denominator=cutoff", 1 / 2),
        ("map@2:denominator=found", 1),
        ("map:threshold=1", (1 / 3 + 2 / 4) / 2),
        ("mrr", 1),
        ("mrr:threshold=1", 1 / 3),
        ("mrr@2:threshold=1", 0),
        ("precision@2", 1 / 2),
        ("precision@8", 3 / 8),
        ("precision@8:denominator=list", 3 / 4),
        ("precision@8:short=zero", 0),
        ("precision", 3 / 4),
        ("recall@3", 2 / 3),
        ("recall", 1),
        ("auc", 2 / 3 * 0.5),
        ("auc:pairs=graded", 1 / 6),
        ("rbp", 0.2 * (1 + 0.8**2 + 0.8**3)),
        ("rbp@3:persistence=0.5", 0.5 * (1 + 0.25)),
    ],
)
def test_value_of_a_small_list(spelling, expected):
    assert metric(spelling)(SCORES, LABELS, ONE)[0] == pytest.approx(expected, rel=1e-14)


def test_ndcg_has_the_value_of_the_rax_readme():
    value = metric("ndcg")([2.2, -1.3, 5.4], [1, 0, 0], [0, 3])[0]
    assert value == pytest.approx(0.63092977, abs=5e-8)  # published in float32


@pytest.mark.parametrize(("empty", "value"), [("drop", math.nan), (0, 0.0), (0.5, 0.5), (1, 1.0)])
@pytest.mark.parametrize("name", ["ndcg@2", "dcg", "err", "map", "mrr", "precision@2", "rbp", "auc"])
def test_a_list_without_a_relevant_document_has_the_value_of_the_option(name, empty, value):
    m = metric(name, empty=empty)
    values = m([1.0, 2.0, 3.0, 4.0], [0, 0, 0, 1], [0, 3, 3, 4])
    assert values[:2] == pytest.approx([value, value], nan_ok=True)


def test_relevant_documents_that_were_not_retrieved_count_but_gain_nothing():
    missing = -math.inf
    scores, labels = [1.0, missing, missing], [1, 2, 0]
    values = {
        name: metric(name)(scores, labels, [0, 3])[0] for name in ("ndcg", "map", "recall", "precision@1", "mrr", "err")
    }
    assert values == pytest.approx(
        {"ndcg": 1 / (3 + 1 / LOG2(3)), "map": 1 / 2, "recall": 1 / 2, "precision@1": 1.0, "mrr": 1.0, "err": 1 / 4}
    )
    assert metric("ndcg")([missing] * 3, labels, [0, 3])[0] == 0.0


@pytest.mark.parametrize("top", [4, 31, 62, 63, 200, 1e10, 1e30])
def test_large_labels_do_not_overflow_a_ratio(top):
    labels = [top, 0, top]
    best = 1 + 1 / LOG2(3)
    ndcg = metric("ndcg")([3.0, 2.0, 1.0], labels, [0, 3])[0]
    assert ndcg == pytest.approx((1 + 1 / LOG2(4)) / best, rel=1e-12)
    chance = 1 - 2.0**-top
    err = metric("err")([3.0, 2.0, 1.0], labels, [0, 3])[0]
    assert err == pytest.approx(chance + (1 - chance) * chance / 3, rel=1e-12)


def test_labels_may_be_any_non_negative_numbers():
    labels = np.array([0.25, 1.5, 1e-20], np.float32)
    gains = np.expm1(labels.astype(float) * math.log(2))
    value = metric("ndcg")([3.0, 2.0, 1.0], labels, [0, 3])[0]
    best = gains[1] + gains[0] / LOG2(3) + gains[2] / 2
    assert value == pytest.approx((gains[0] + gains[1] / LOG2(3) + gains[2] / 2) / best, rel=1e-14)
    assert metric("ndcg")([2.0, 1.0], [0, 1e-20], [0, 2])[0] == pytest.approx(1 / LOG2(3))


def test_labels_of_which_the_dcg_overflows_are_refused():
    assert metric("dcg@1")([1.0], [200], [0, 1])[0] == pytest.approx(2.0**200)
    with pytest.raises(DataError, match="dcg@1 allows labels up to 960"):
        metric("dcg@1")([1.0], [2000], [0, 1])
    assert metric("dcg@1:gain=identity")([1.0], [2000], [0, 1])[0] == 2000


def test_labels_above_the_top_grade_are_refused():
    with pytest.raises(DataError, match=r"err@5:grade=4 allows labels up to 4, but .* 5"):
        metric("err@5:grade=4")([1.0], [5], [0, 1])
    with pytest.raises(DataError, match="err:catboost allows labels up to 1"):
        metric("err:catboost")([1.0], [2], [0, 1])


NAMES = {"err_query_max": "err", "err_gmax4": "err:grade=4", "p": "precision", "ap": "map"}


def test_values_are_those_of_the_reference_vectors(real_data):
    file = real_data.parent / "spec" / "vectors.json"
    if not file.is_file():
        pytest.skip("no reference vectors")
    for case in json.loads(file.read_text())["objectives"]["metrics"]:
        for spelling, expected in case["outputs"].items():
            name, _, cutoff = spelling.partition("@")
            head, _, tail = NAMES.get(name, name).partition(":")
            head = head.removesuffix("_jk")
            options = {"discount": "letor"} if name.endswith("_jk") else {}
            # The vectors give these two the value 0 where the convention drops the list.
            options |= {"empty": 0} if head in ("err", "precision") else {}
            text = head + (f"@{cutoff}" if cutoff.isdigit() else "") + (f":{tail}" if tail else "")
            labels = case["inputs"]["labels"]
            value = metric(text, **options)(case["inputs"]["scores"], labels, [0, len(labels)])[0]
            wanted = math.nan if expected is None else expected
            assert value == pytest.approx(wanted, rel=1e-12, nan_ok=True), spelling
