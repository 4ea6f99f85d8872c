"""Spellings parse back, and what does not exist is an error that says what does."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from hypothesis import given, strategies as st

import plackett as pk
from plackett.base.errors import UsageError
from plackett.metrics import CONVENTIONS, METRICS, Metric, metric, metrics
from plackett.metrics.definition import CHOICES

PAIRS = [(c.name, d) for c in CONVENTIONS for d in METRICS if d.name in c.metrics]
NUMBERS = {
    "grade": st.one_of(st.just("list"), st.floats(1e-3, 1e3), st.integers(1, 40)),
    "threshold": st.floats(0, 1e6),
    "persistence": st.floats(0, 1, exclude_min=True, exclude_max=True),
}


@st.composite
def any_metric(draw):
    convention, definition = draw(st.sampled_from(PAIRS))
    cutoff = draw(st.one_of(st.none(), st.integers(1, 10**6))) if definition.has_cutoff else None
    chosen = draw(st.sets(st.sampled_from([o for o in definition.options if o != "seed"])))
    options = {
        name: draw(NUMBERS[name] if name in NUMBERS else st.sampled_from(definition.choices.get(name) or CHOICES[name]))
        for name in sorted(chosen)
    }
    if options.get("ties") == "random":
        options["seed"] = draw(st.integers(0, 2**63 - 1))
    text = definition.name if cutoff is None else f"{definition.name}@{cutoff}"
    if options.get("ties") == "expected" and options.get("denominator") == "found":
        del options["ties"]
    return metric(text, convention, **options)


@given(any_metric())
def test_every_metric_is_the_one_that_its_spelling_names(m):
    assert metric(str(m)) == m
    assert hash(metric(str(m))) == hash(m)
    assert "," not in str(m)


@pytest.mark.parametrize(
    ("made", "spelling"),
    [
        (metric("ndcg@10"), "ndcg@10"),
        (metric("ndcg@10", convention="papers"), "ndcg@10"),
        (metric("ndcg@10:gain=exp2:ties=stable"), "ndcg@10"),
        (metric("ndcg@5", convention="lightgbm"), "ndcg@5:lightgbm"),
        (metric("ndcg@5:lightgbm", empty=1), "ndcg@5:lightgbm"),
        (metric("ndcg@5:lightgbm", empty="drop"), "ndcg@5:lightgbm:empty=drop"),
        (metric("err@10", grade=4), "err@10:grade=4"),
        (metric("err@10", grade=4.0), "err@10:grade=4"),
        (metric("map:ties=expected"), "map:ties=expected"),
        (metric("rbp", persistence=0.95), "rbp:persistence=0.95"),
        (metric("auc", empty=0.5), "auc:empty=0.5"),
        (metric("mrr", ties="random", seed=2**60 + 1), f"mrr:ties=random:seed={2**60 + 1}"),
        (metric(" map : catboost : empty = 1 "), "map:catboost:empty=1"),
    ],
)
def test_defaults_are_not_written(made, spelling):
    assert str(made) == spelling


@pytest.mark.parametrize(
    ("theirs", "ours"),
    [
        ("nDCG@10", "ndcg@10"),
        ("NDCG@10", "ndcg@10"),
        ("P@5", "precision@5"),
        ("P(rel=2)@5", "precision@5:threshold=1"),
        ("R@100", "recall@100"),
        ("AP", "map"),
        ("AP(rel=3)@100", "map@100:threshold=2"),
        ("RR@10", "mrr@10"),
        ("RBP(p=0.8)", "rbp"),
        ("RBP(p=0.5,rel=2)", "rbp:threshold=1:persistence=0.5"),
        ("ERR@10", "err@10"),
        ("Success@5", "success@5"),
        ("nDCG(dcg='log2')@20", "ndcg@20:gain=identity"),
        ("ndcg_cut_10", "ndcg@10"),
        ("P_5", "precision@5"),
        ("recip_rank", "mrr"),
        ("nDCG@10:trec_eval", "ndcg@10:trec_eval"),
    ],
)
def test_names_of_ir_measures_and_trec_eval_are_read(theirs, ours):
    assert str(metric(theirs)) == ours


def test_arguments_in_parentheses_may_have_commas():
    actual = metrics("RBP(p=0.5,rel=2), AP")
    assert [str(m) for m in actual] == ["rbp:threshold=1:persistence=0.5", "map"]


def first_label(scores, labels):
    return labels[scores.argmax()] if len(labels) > 1 else np.nan


def test_a_function_of_one_list_is_a_metric():
    actual = metric(first_label)
    values = actual([0.1, 0.9, 0.5, 0.2, 1.0], [0, 2, 1, 0, 3], [0, 2, 4, 5])
    np.testing.assert_array_equal(values, [2.0, 1.0, np.nan])
    assert metric(str(actual)) == actual
    assert pickle.loads(pickle.dumps(actual)) == actual
    assert str(metric(first_label, name="best")) == "best"
    data = pk.Dataset.from_arrays(np.ones((4, 1)), [0, 2, 1, 0], [1, 1, 2, 2])
    means = pk.evaluate(data.labels, data, [first_label, "ndcg@1"])
    assert means == {"first_label": 1.5, "ndcg@1": 1.0}


@pytest.mark.parametrize(
    ("function", "options", "message"),
    [
        (first_label, {"name": "ndcg"}, "'ndcg', which is a metric already"),
        (first_label, {"name": "a@5"}, "not a plain name"),
        (first_label, {"ties": "expected"}, "no convention and no options"),
        ("ndcg@5", {"name": "mine"}, "name= is for functions"),
    ],
)
def test_a_function_cannot_be_given_what_it_cannot_have(function, options, message):
    with pytest.raises(UsageError, match=message):
        metric(function, **options)


def test_a_function_must_return_one_number():
    with pytest.raises(UsageError, match=r"the metric pair must return one number .* got \(1, 2\)"):
        metric(lambda _s, _y: (1, 2), name="pair")([1.0], [1], [0, 1])


def test_two_functions_of_one_name_are_refused():
    with pytest.raises(UsageError, match="two metrics are called 'lambda'"):
        metrics([lambda _s, _y: 0.0, lambda _s, _y: 1.0])


def test_a_metric_is_its_own_spelling():
    m = metric("err@10", grade=4)
    assert metric(m) is m


def test_metrics_come_as_one_as_several_or_separated_by_commas():
    expected = (metric("ndcg@5"), metric("err@10:grade=4"))
    assert metrics("ndcg@5, err@10:grade=4") == expected
    assert metrics(["ndcg@5", metric("err@10", grade=4), "ndcg@5:papers"]) == expected
    assert metrics(expected[0]) == expected[:1]


@pytest.mark.parametrize(
    ("spelling", "options", "message"),
    [
        ("nddcg@5", {}, r"no metric 'nddcg'\. Did you mean 'ndcg'\? There are: ndcg, dcg, err"),
        ("nDCG(judged_only=True)@5", {}, "'judged_only=True' .* has no counterpart"),
        ("ndcg@0", {}, "from 1 to .* got '0'"),
        ("ndcg@", {}, "from 1 to .* got ''"),
        ("ndcg@-3", {}, "from 1 to"),
        ("ndcg@ten", {}, "from 1 to"),
        ("ndcg@" + 30 * "9", {}, "from 1 to 10"),
        ("auc@5", {}, "'auc' has no cut-off"),
        ("ndcg:ligthgbm", {}, "Did you mean 'lightgbm'"),
        ("err@10:lightgbm", {}, "LightGBM has no metric 'err' of single lists.* ndcg, map"),
        ("ndcg:grade=4", {}, "no option 'grade' of 'ndcg'.*option of other metrics"),
        ("ndcg:tie=expected", {}, "Did you mean 'ties'"),
        ("ndcg:ties=expect", {}, "Did you mean 'expected'"),
        ("ndcg:lightgbm:xgboost", {}, "two conventions"),
        ("ndcg:ties=stable:ties=random", {}, "'ties' twice"),
        ("ndcg:ties=stable", {"ties": "random"}, "two values of option 'ties'"),
        ("ndcg:lightgbm", {"convention": "mslr"}, "two values of the convention"),
        ("ndcg", {"seed": 3}, "needs ties=random"),
        ("ndcg:ties=random", {"seed": -1}, "integer from 0"),
        ("ndcg:ties=random", {"seed": 0.5}, "integer from 0"),
        ("ndcg", {"empty": 0.25}, "There are: drop, 0, 0.5, 1"),
        ("precision", {"denominator": "found"}, "There are: cutoff, list"),
        ("err", {"grade": 0}, "above 0"),
        ("err", {"grade": "four"}, "finite number, got 'four'"),
        ("map", {"threshold": -1}, "at least 0"),
        ("map", {"threshold": float("nan")}, "finite number"),
        ("rbp", {"persistence": 1}, "between 0 and 1"),
    ],
)
def test_what_does_not_exist_is_an_error_that_says_what_does(spelling, options, message):
    with pytest.raises(UsageError, match=message):
        metric(spelling, **options)


@pytest.mark.parametrize("spelling", [None, 5, b"ndcg", ["ndcg"]])
def test_a_metric_is_written_as_text(spelling):
    with pytest.raises(UsageError, match="a metric is written as text, such as 'ndcg@10', or"):
        metric(spelling)


def test_a_metric_takes_no_more_options():
    with pytest.raises(UsageError, match="is a metric already"):
        metric(metric("ndcg"), ties="expected")


@pytest.mark.parametrize("text", ["", "ndcg@5,,map", "ndcg@5,"])
def test_an_empty_place_in_a_list_of_metrics_is_an_error(text):
    with pytest.raises(UsageError, match="empty place"):
        metrics(text)


def test_a_metric_cannot_be_changed():
    with pytest.raises(AttributeError):
        metric("ndcg").name = "dcg"
    assert isinstance(metric("ndcg"), Metric)
